# attnc_add_target(NAME sources...)
#
# Makes a library of targets (compiler/Target.h), libNAME.so, for `attnc
# --load-target`. What it calls is found in attnc itself, so it links nothing.
function(attnc_add_target name)
  if(NOT ARGN)
    message(FATAL_ERROR "attnc_add_target: sources of '${name}' are needed")
  endif()
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE attnc::target_interface)
  set_target_properties(${name} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
