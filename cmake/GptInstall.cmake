include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Debian and Ubuntu have another program called gpt (G-code). The program is installed as gptcpp, with a link gpt.
install(PROGRAMS $<TARGET_FILE:gpt> DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME gptcpp)
install(CODE "file(CREATE_LINK gptcpp \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/gpt\" SYMBOLIC)")
if(TARGET gpt_mpi)  # the program finds its module relative to itself: src/distributed/processes.cpp
  install(TARGETS gpt_mpi LIBRARY DESTINATION lib/gptcpp)
endif()
install(FILES README.md CHANGELOG.md LICENSE THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES packaging/gptcpp.service DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/gptcpp/examples)

# The library, for find_package(gptcpp) and pkg-config.
install(TARGETS gptcpp EXPORT gptcpp LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  NAMELINK_COMPONENT library ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY include/gpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/gptcpp)
install(EXPORT gptcpp FILE gptcppTargets.cmake NAMESPACE gptcpp:: DESTINATION ${package} COMPONENT library)
configure_file(cmake/gptcppConfig.cmake.in ${PROJECT_BINARY_DIR}/gptcppConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gptcppConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
if(NOT BUILD_SHARED_LIBS)
  set(pc_static_libs "-lfmt -lz -lzstd -lpcre2-8 -lutf8proc -ldl -lpthread -lstdc++ -lm")
endif()
configure_file(cmake/gptcpp.pc.in ${PROJECT_BINARY_DIR}/gptcpp.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gptcppConfig.cmake ${PROJECT_BINARY_DIR}/gptcppConfigVersion.cmake
  DESTINATION ${package} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/gptcpp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

# Shell completion and manual pages, written by the program when it is built. A cross build cannot run the program:
# install them from a native build, or run `gpt completion` on the target machine.
if(NOT CMAKE_CROSSCOMPILING)
  set(generated ${PROJECT_BINARY_DIR}/generated/share)
  add_custom_command(OUTPUT ${generated}/done
    COMMAND ${CMAKE_COMMAND} -DGPT=$<TARGET_FILE:gpt> -DOUT=${generated} -P ${PROJECT_SOURCE_DIR}/cmake/WriteManPages.cmake
    DEPENDS gpt ${PROJECT_SOURCE_DIR}/cmake/WriteManPages.cmake VERBATIM)
  add_custom_target(man_pages ALL DEPENDS ${generated}/done)
  install(DIRECTORY ${generated}/bash-completion ${generated}/fish ${generated}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR})
  install(DIRECTORY ${generated}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()
