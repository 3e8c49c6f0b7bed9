# Writes a C++ source with the functions gpt::detail::NAME_page_{html,style,script}, which return the files of a web
# page. NAME_page_script_sha256 returns the hex digest of "\n" + script + "\n", the text inside the script element, for
# content security policies that list the allowed scripts.
#   cmake -DOUT=... -DNAME=... -DFILES=a.html,b.css,c.js,... -P EmbedFiles.cmake
# Files of the same kind are concatenated in the given order. All scripts share one scope.
string(REPLACE "," ";" files "${FILES}")
set(html "")
set(style "")
set(script "")
foreach(file ${files})
  file(READ ${file} text)
  if(file MATCHES "\\.html$")
    string(APPEND html "${text}")
  elseif(file MATCHES "\\.css$")
    string(APPEND style "${text}")
  else()
    string(APPEND script "${text}")
  endif()
endforeach()
set(source "// Made by cmake/EmbedFiles.cmake.\nnamespace gpt::detail {\n")
foreach(part html style script)
  string(APPEND source "const char* ${NAME}_page_${part}() {\n  return R\"~page~(${${part}})~page~\";\n}\n")
endforeach()
string(SHA256 script_sha256 "\n${script}\n")
string(APPEND source "const char* ${NAME}_page_script_sha256() {\n  return \"${script_sha256}\";\n}\n")
file(WRITE ${OUT} "${source}}  // namespace gpt::detail\n")
