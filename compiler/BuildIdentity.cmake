# Writes OUTPUT: a hash over everything that generated code depends on.
#   cmake -DROOT=... -DOUTPUT=... -P BuildIdentity.cmake
file(GLOB_RECURSE sources LIST_DIRECTORIES false
  ${ROOT}/compiler/*.cpp ${ROOT}/compiler/*.h ${ROOT}/compiler/*.td
  ${ROOT}/dsl/*.cpp ${ROOT}/dsl/*.h
  ${ROOT}/targets/*.cpp ${ROOT}/targets/*.h ${ROOT}/targets/*.td
  ${ROOT}/runtime/attn_abi.h)
list(FILTER sources EXCLUDE REGEX "/compiler/tools/")
list(SORT sources)
set(hashes "")
foreach(source IN LISTS sources)
  file(SHA256 ${source} hash)
  string(APPEND hashes "${hash}\n")
endforeach()
string(SHA256 identity "${hashes}")
string(SUBSTRING ${identity} 0 16 identity)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define ATTN_BUILD_IDENTITY \"${identity}\"\n" @ONLY)
