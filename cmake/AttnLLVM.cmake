# attn_mlir: everything of LLVM and MLIR that the compiler links, statically.
#
# Debian's MLIR export names the *shared* LLVM in the link interface of each
# static MLIR library, so a static link has to replace that name by component
# archives. find_package accepts major.minor only.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

set(ATTN_MLIR_LIBS
  MLIRSCFDialect MLIRVectorDialect MLIRMemRefDialect MLIRArithDialect
  MLIRMathDialect MLIRFuncDialect MLIRControlFlowDialect MLIRLLVMDialect
  MLIRUBDialect MLIRIndexDialect MLIRArithToLLVM MLIRControlFlowToLLVM
  MLIRFuncToLLVM MLIRIndexToLLVM MLIRMathToLLVM MLIRVectorToLLVMPass
  MLIRSCFToControlFlow MLIRUBToLLVM MLIRReconcileUnrealizedCasts
  MLIRBuiltinToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation
  MLIRTargetLLVMIRExport MLIRParser MLIRPass MLIRTransforms MLIROptLib
  MLIRFuncAllExtensions)
llvm_map_components_to_libnames(ATTN_LLVM_LIBS
  core support irreader passes orcjit orcdebugging
  x86codegen x86asmparser x86desc x86info x86disassembler)

add_library(attn_llvm INTERFACE)
target_link_libraries(attn_llvm INTERFACE ${ATTN_LLVM_LIBS})
foreach(t IN LISTS MLIR_EXPORTED_TARGETS)
  if(TARGET ${t})
    get_target_property(deps ${t} INTERFACE_LINK_LIBRARIES)
    if(deps)
      list(TRANSFORM deps REPLACE "^LLVM$" "attn_llvm")
      set_target_properties(${t} PROPERTIES INTERFACE_LINK_LIBRARIES "${deps}")
    endif()
  endif()
endforeach()

# lld as a library links bundles without a linker on the user's machine.
set(ATTN_LLD_LIBS ${LLVM_LIBRARY_DIR}/liblldELF.a ${LLVM_LIBRARY_DIR}/liblldCommon.a)
llvm_map_components_to_libnames(ATTN_LLD_DEPS
  bitreader bitwriter binaryformat core debuginfodwarf debuginfopdb demangle lto mc
  object option passes support target targetparser windowsdriver)
separate_arguments(ATTN_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")

add_library(attn_mlir INTERFACE)
target_include_directories(attn_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_options(attn_mlir INTERFACE ${ATTN_LLVM_DEFINITIONS})
target_link_libraries(attn_mlir INTERFACE ${ATTN_MLIR_LIBS} attn_llvm)
target_link_options(attn_mlir INTERFACE -fuse-ld=lld LINKER:--gc-sections LINKER:--icf=safe)
add_library(attn_lld INTERFACE)
target_link_libraries(attn_lld INTERFACE ${ATTN_LLD_LIBS} ${ATTN_LLD_DEPS})
