# Helper functions with which the build rules of a folder take one line.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Makes paths below the source folder relative, so that a second clone reuses the cached objects of the
  # first one.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    ${CCACHE_PROGRAM})
endif()

add_library(gpt_options INTERFACE)
# Designated initializers leave the other fields at their defaults on purpose.
target_compile_options(gpt_options INTERFACE -Wall -Wextra -Wconversion -Wno-missing-field-initializers -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(gpt_options INTERFACE -Wno-restrict)  # g++ 12 has false positives for std::string
endif()
if(GPT_WERROR)
  target_compile_options(gpt_options INTERFACE -Werror)
endif()
if(GPT_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Sanitizer checks prevent the unrolling of some loops.
  target_compile_options(gpt_options INTERFACE -Wno-pass-failed)
endif()
if(GPT_SANITIZE)
  target_compile_options(gpt_options INTERFACE -fsanitize=${GPT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gpt_options INTERFACE -fsanitize=${GPT_SANITIZE})
endif()

# For code without heavy computation, such as the command line and the tests. It compiles in half to two
# thirds of the time.
add_library(gpt_glue_options INTERFACE)
target_link_libraries(gpt_glue_options INTERFACE gpt_options)
target_compile_options(gpt_glue_options INTERFACE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)

# gpt_unity(TARGET): compiles GPT_UNITY_BATCH sources in one translation unit, so that headers and templates
# are parsed once per batch. Names in anonymous namespaces must then differ within a folder. The source
# property SKIP_UNITY_BUILD_INCLUSION excludes single files.
function(gpt_unity target)
  if(GPT_UNITY_BATCH GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${GPT_UNITY_BATCH})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # g++ would warn about members of types in anonymous namespaces, because unity builds include the source
      # files.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# gpt_library(NAME [GLUE] DEPS ...): adds the static library gpt_NAME from src/NAME/**.cpp. GLUE: compile with
# -O1, for libraries without heavy computation.
function(gpt_library name)
  cmake_parse_arguments(ARG "GLUE" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  add_library(gpt_${name} STATIC ${sources})
  target_include_directories(gpt_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(gpt_${name} PUBLIC ${ARG_DEPS} PRIVATE gpt_options)
  if(ARG_GLUE)
    target_compile_options(gpt_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  gpt_inside_library(gpt_${name})
  gpt_unity(gpt_${name})
endfunction()

# gpt_inside_library(TARGET): hides the symbols of a target that becomes part of libgptcpp.so. Hidden
# functions can be called and inlined as in an executable.
function(gpt_inside_library target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# gpt_embed_page(NAME [TARGET LIBRARY] FILES...): embeds .html, .css and .js files, relative to src/, in the
# library gpt_NAME or gpt_LIBRARY, as the functions gpt::detail::NAME_page_{html,style,script,script_sha256}.
function(gpt_embed_page name)
  cmake_parse_arguments(ARG "" "TARGET" "" ${ARGN})
  set(files ${ARG_UNPARSED_ARGUMENTS})
  set(target ${name})
  if(ARG_TARGET)
    set(target ${ARG_TARGET})
  endif()
  set(out ${PROJECT_BINARY_DIR}/generated/${name}_page_files.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake)
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/src/)
  list(JOIN files "," joined)
  add_custom_command(OUTPUT ${out} COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DNAME=${name} -DFILES=${joined} -P ${script}
    DEPENDS ${files} ${script} VERBATIM)
  target_sources(gpt_${target} PRIVATE ${out})
endfunction()

# Compiles the SIMD sources once per instruction set. The program chooses the instruction set at start-up.
function(gpt_configure_kernels)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND GPT_SIMD)
    # *.bf16.cc contains kernels for AVX512_BF16 or AVX512_VNNI, and *.amx.cc kernels for AMX tiles.
    file(GLOB bf16 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cpu/*/*.bf16.cc)
    file(GLOB tiles CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cpu/*/*.amx.cc)
    file(GLOB simd CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cpu/*/*.cc)
    list(REMOVE_ITEM simd ${bf16} ${tiles})
    foreach(isa avx2 avx512 avx512bf16 amx)
      if(isa STREQUAL avx512bf16)
        set(simd ${bf16})
      elseif(isa STREQUAL amx)
        set(simd ${tiles})
      endif()
      add_library(gpt_simd_${isa} OBJECT ${simd})
      target_include_directories(gpt_simd_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src)
      target_link_libraries(gpt_simd_${isa} PRIVATE gpt_options fmt::fmt)
      gpt_inside_library(gpt_simd_${isa})
      target_sources(gpt_kernels PRIVATE $<TARGET_OBJECTS:gpt_simd_${isa}>)
    endforeach()
    target_compile_options(gpt_simd_avx2 PRIVATE -mavx2 -mfma -mf16c -DGPT_SIMD_AVX2)
    set(avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
      -falign-loops=64 -DGPT_SIMD_AVX512)
    target_compile_options(gpt_simd_avx512 PRIVATE ${avx512})
    target_compile_options(gpt_simd_avx512bf16 PRIVATE ${avx512} -mavx512bf16 -mavx512vnni -DGPT_SIMD_BF16)
    target_compile_options(gpt_simd_amx PRIVATE ${avx512} -mavx512bf16 -mavx512vnni -mamx-tile -mamx-bf16 -mamx-int8
      -DGPT_SIMD_AMX)
    if(GPT_EMULATE_AMX)
      target_compile_definitions(gpt_simd_amx PRIVATE GPT_EMULATE_AMX)
      target_compile_definitions(gpt_kernels PRIVATE GPT_EMULATE_AMX)
    endif()
    target_compile_definitions(gpt_kernels PRIVATE GPT_HAVE_SIMD)
  endif()
endfunction()

# gpt_test(NAME SOURCES... DEPS ... LABEL label): adds a GoogleTest binary with a CTest test for each case.
# The target LABEL_binaries builds all binaries of a label.
function(gpt_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} gpt_glue_options GTest::gtest_main)
  target_compile_options(${name} PRIVATE -include ${PROJECT_BINARY_DIR}/generated/test_paths.h)
  gpt_unity(${name})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 900)
  if(NOT TARGET ${ARG_LABEL}_binaries)
    add_custom_target(${ARG_LABEL}_binaries)
  endif()
  add_dependencies(${ARG_LABEL}_binaries ${name})
endfunction()
