# A toolchain for AArch64 Linux. ATTN_CROSS_CC is the C compiler; C++ is compiled
# by clang in any case, and nothing is linked from it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER ${ATTN_CROSS_CC})
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER ${ATTN_CROSS_CXX})
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ATTN_CROSS_CC ATTN_CROSS_CXX)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
