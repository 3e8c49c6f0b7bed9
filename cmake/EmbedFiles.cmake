# Writes a C++ source with the page of `gpt trace` as string literals.   cmake -DOUT=... -DDIR=... -P EmbedFiles.cmake
# The scripts are one after another in the order given here; they share one scope.
set(scripts core overview diagram positions stream attention flow predictions parameters selftest main)

function(literal name files)
  set(content "")
  foreach(file ${files})
    file(READ ${DIR}/${file} text)
    string(APPEND content "${text}")
  endforeach()
  set(source "${source}const char* ${name}() {\n  return R\"~page~(${content})~page~\";\n}\n" PARENT_SCOPE)
endfunction()

set(js "")
foreach(name ${scripts})
  list(APPEND js ${name}.js)
endforeach()
set(source "")
literal(page_html page.html)
literal(page_style page.css)
literal(page_script "${js}")
file(WRITE ${OUT} "// Made by cmake/EmbedFiles.cmake from src/trace/page.\n#include \"trace/page.h\"\n\nnamespace gpt::detail {\n${source}}  // namespace gpt::detail\n")
