include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS gpt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The program looks for the module there, relative to itself: src/distributed/processes.cpp.
if(TARGET gpt_mpi)
  install(TARGETS gpt_mpi LIBRARY DESTINATION lib/gptcpp)
endif()

# The library, with files for find_package(gptcpp) and pkg-config.
install(TARGETS gptcpp EXPORT gptcpp LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  NAMELINK_COMPONENT library)
install(DIRECTORY include/gpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/gptcpp)
install(EXPORT gptcpp FILE gptcppConfig.cmake NAMESPACE gptcpp:: DESTINATION ${package} COMPONENT library)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gptcppConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/gptcpp.pc.in ${CMAKE_BINARY_DIR}/gptcpp.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/gptcppConfigVersion.cmake DESTINATION ${package} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/gptcpp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

# Files that the program generates: completions for bash and fish, and a man page for every command.
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
