# ATTN_MACHINE_SOURCES: the C sources that tell the features of the machine that
# is built for (attn_machine_has and attn_machine_features of attn_abi.h).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(ATTN_MACHINE_SOURCES ${CMAKE_CURRENT_LIST_DIR}/x86/Machine.c)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(ATTN_MACHINE_SOURCES ${CMAKE_CURRENT_LIST_DIR}/arm/Machine.c)
else()
  set(ATTN_MACHINE_SOURCES ${CMAKE_CURRENT_LIST_DIR}/generic/Machine.c)
endif()
