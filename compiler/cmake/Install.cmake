# bin/attnc, the libraries, the headers under include/attn, and the package that
# find_package(attnc) reads.
include(CMakePackageConfigHelpers)
set(attn_include ${CMAKE_INSTALL_INCLUDEDIR}/attn)
set(attn_package ${CMAKE_INSTALL_LIBDIR}/cmake/attnc)

# The runtime (installed by its folder) looks for the compiler library beside
# itself.
set_target_properties(attn_runtime PROPERTIES INSTALL_RPATH "$ORIGIN")
set_target_properties(attn_dsl PROPERTIES EXPORT_NAME dsl)
install(TARGETS attn_dsl EXPORT attncTargets INCLUDES DESTINATION ${attn_include})
install(FILES dsl/Spec.h dsl/Variant.h DESTINATION ${attn_include}/dsl)
if(TARGET attnc)
  file(RELATIVE_PATH libraries /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(attnc PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries}")
  install(TARGETS attnc attn_target_interface EXPORT attncTargets
    INCLUDES DESTINATION ${attn_include})
  install(FILES compiler/Target.h DESTINATION ${attn_include}/compiler)
  install(FILES targets/cpu/CpuTarget.h DESTINATION ${attn_include}/targets/cpu)
  install(TARGETS attnc_shared)
endif()
# What `attnc targets` tells of conformance, where tests have left it.
install(FILES ${PROJECT_BINARY_DIR}/share/attnc/conformance.json
  DESTINATION share/attnc OPTIONAL)

install(EXPORT attncTargets NAMESPACE attnc:: DESTINATION ${attn_package})
configure_package_config_file(compiler/cmake/attncConfig.cmake.in
  ${PROJECT_BINARY_DIR}/attncConfig.cmake INSTALL_DESTINATION ${attn_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attncConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attncConfig.cmake
  ${PROJECT_BINARY_DIR}/attncConfigVersion.cmake compiler/cmake/AttncKernels.cmake
  compiler/cmake/AttncTarget.cmake
  DESTINATION ${attn_package})
