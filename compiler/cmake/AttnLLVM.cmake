# attn_mlir: everything of LLVM and MLIR that the compiler links, statically.
#
# Debian's MLIR export names the *shared* LLVM in the link interface of each
# static MLIR library, so a static link has to replace that name by component
# archives. find_package accepts major.minor only.
# Tests and tools in other folders link these too.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# mlir-tblgen finds its includes through the directory.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

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
  x86codegen x86asmparser x86desc x86info x86disassembler
  aarch64codegen aarch64asmparser aarch64desc aarch64info aarch64disassembler
  nvptxcodegen nvptxdesc nvptxinfo)

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
  bitreader bitwriter binaryformat core debuginfodwarf debuginfopdb demangle dtlto lto mc
  object option passes support target targetparser windowsdriver)
separate_arguments(ATTN_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")

add_library(attn_mlir INTERFACE)
target_include_directories(attn_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_options(attn_mlir INTERFACE ${ATTN_LLVM_DEFINITIONS})
target_link_libraries(attn_mlir INTERFACE ${ATTN_MLIR_LIBS} attn_llvm)
target_link_options(attn_mlir INTERFACE -fuse-ld=lld LINKER:--gc-sections)

# lld starts every target that LLVM was built with. Those that are not linked
# here get an empty start function, so that their code generators stay out.
# (Back ends with no target in the tree are there for targets from outside, that
# is for attnc alone: their empty functions are an archive member apart.)
set(ATTN_LLVM_TARGETS X86 AArch64 NVPTX)
set(ATTN_OUTSIDE_TARGETS RISCV)
set(stubs "/* Generated: targets that lld may start and that are not linked. */\n")
set(outside_stubs "${stubs}")
foreach(kind IN ITEMS Target TargetInfo TargetMC AsmPrinter AsmParser)
  set(list Targets.def)
  if(kind MATCHES "^Asm")
    set(list ${kind}s.def)
  endif()
  set(found FALSE)
  foreach(dir IN LISTS LLVM_INCLUDE_DIRS)
    if(NOT found AND EXISTS ${dir}/llvm/Config/${list})
      set(found TRUE)
      file(STRINGS ${dir}/llvm/Config/${list} lines REGEX "^LLVM_[A-Z_]+\\([A-Za-z0-9]+\\)")
      foreach(line IN LISTS lines)
        string(REGEX REPLACE "^LLVM_[A-Z_]+\\(([A-Za-z0-9]+)\\).*" "\\1" name "${line}")
        set(function "void LLVMInitialize${name}${kind}(void)")
        if(name IN_LIST ATTN_OUTSIDE_TARGETS)
          string(APPEND outside_stubs "${function};\n${function} {}\n")
        elseif(NOT name IN_LIST ATTN_LLVM_TARGETS)
          string(APPEND stubs "${function};\n${function} {}\n")
        endif()
      endforeach()
    endif()
  endforeach()
endforeach()
# Its LTO, which nothing here enters, names Polly; the archive is not shipped.
string(APPEND stubs "void _Z18getPollyPluginInfov(void);\n"
                    "void _Z18getPollyPluginInfov(void) { __builtin_trap(); }\n")
if(TARGET LLVMExtensions)
  set_target_properties(LLVMExtensions PROPERTIES INTERFACE_LINK_LIBRARIES LLVMSupport)
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/lld_targets.c CONTENT "${stubs}" @ONLY)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/lld_outside.c CONTENT "${outside_stubs}" @ONLY)
add_library(attn_lld_targets STATIC
  ${PROJECT_BINARY_DIR}/lld_targets.c ${PROJECT_BINARY_DIR}/lld_outside.c)

add_library(attn_lld INTERFACE)
target_link_libraries(attn_lld INTERFACE ${ATTN_LLD_LIBS} attn_lld_targets ${ATTN_LLD_DEPS})

# The back ends for targets from outside, which bring none. Linked first, so that
# they are found before the empty functions above.
llvm_map_components_to_libnames(ATTN_OUTSIDE_LIBS riscvcodegen riscvasmparser riscvdesc riscvinfo)
add_library(attn_outside_backends INTERFACE)
target_link_libraries(attn_outside_backends INTERFACE ${ATTN_OUTSIDE_LIBS})
foreach(name IN LISTS ATTN_OUTSIDE_TARGETS)
  foreach(kind IN ITEMS TargetInfo Target TargetMC AsmPrinter)
    target_link_options(attn_outside_backends INTERFACE
      LINKER:--undefined=LLVMInitialize${name}${kind})
  endforeach()
endforeach()
