include(GNUInstallDirs)
install(TARGETS gpt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# What the program itself writes: completion for bash and fish, and a page of the manual for every command.
install(CODE "
  set(gpt \"$<TARGET_FILE:gpt>\")
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\")
  file(MAKE_DIRECTORY \${share}/bash-completion/completions \${share}/fish/vendor_completions.d \${share}/man/man1)
  execute_process(COMMAND \${gpt} completion bash OUTPUT_FILE \${share}/bash-completion/completions/gpt)
  execute_process(COMMAND \${gpt} completion fish OUTPUT_FILE \${share}/fish/vendor_completions.d/gpt.fish)
  execute_process(COMMAND \${gpt} completion man OUTPUT_FILE \${share}/man/man1/gpt.1)
  execute_process(COMMAND \${gpt} completion words \"\" OUTPUT_VARIABLE commands)
  string(REGEX MATCHALL \"[a-z]+\" commands \"\${commands}\")
  foreach(command IN LISTS commands)
    execute_process(COMMAND \${gpt} completion man \${command} OUTPUT_FILE \${share}/man/man1/gpt-\${command}.1)
  endforeach()
")
