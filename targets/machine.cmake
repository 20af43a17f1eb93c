# ATTN_MACHINE_SOURCES: the C sources that tell the features of the machine that
# is built for (attn_machine_has and attn_machine_features of attn_abi.h).
# Whoever configures for a machine that has none here may name their own.
if(NOT DEFINED CACHE{ATTN_MACHINE_SOURCES})
  set(machine generic)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(machine x86)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(machine arm)
  endif()
  set(ATTN_MACHINE_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${machine}/Machine.c)
endif()

# ATTN_DEVICE_SOURCES: what the runtime needs of devices beside the CPU. It finds
# their drivers when a program asks for one.
set(ATTN_DEVICE_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/Devices.c
  ${CMAKE_CURRENT_LIST_DIR}/cuda/Device.c)
