# cmake -DLIBRARY=... -DHEADER=... -DNM=... -DSTRIP=... -DWORK=... -P this
#
# The shared library exports exactly the functions that attn.h declares, needs
# no C++ runtime, and is small.
file(READ ${HEADER} text)
string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/" "" text "${text}")
string(REGEX MATCHALL "ATTN_API[^;(]*[ *](attn_[a-z0-9_]+)\\(" declarations "${text}")
set(declared)
foreach(declaration IN LISTS declarations)
  string(REGEX REPLACE ".*[ *\n](attn_[a-z0-9_]+)\\($" "\\1" name "${declaration}")
  list(APPEND declared ${name})
endforeach()
list(SORT declared)

execute_process(COMMAND ${NM} -D --defined-only --format=posix ${LIBRARY}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[A-Za-z_][A-Za-z0-9_]*[^\n]* [TDBRVW] " lines "${symbols}")
set(exported)
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^\n?([A-Za-z0-9_]+).*" "\\1" name "${line}")
  list(APPEND exported ${name})
endforeach()
list(SORT exported)
if(NOT declared OR NOT declared STREQUAL exported)
  message(FATAL_ERROR "declared: ${declared}\nexported: ${exported}")
endif()

execute_process(COMMAND ${STRIP} -o ${WORK}/stripped.so ${LIBRARY} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${WORK}/stripped.so size)
message("stripped: ${size} bytes")
if(size GREATER 131072)
  message(FATAL_ERROR "the library has ${size} bytes stripped, at most 131072 are allowed")
endif()
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${LIBRARY}
  RESOLVED_DEPENDENCIES_VAR needed UNRESOLVED_DEPENDENCIES_VAR missing)
foreach(library IN LISTS needed missing)
  if(NOT library MATCHES "/(libc|libm|libdl|libpthread|libpthreadpool|ld-linux[^/]*)\\.so")
    message(FATAL_ERROR "the library needs ${library}")
  endif()
endforeach()
