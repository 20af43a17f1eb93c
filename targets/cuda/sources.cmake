foreach(file Assembler Cuda FragmentLowering Keys Rows Shared States Steps Warp)
  set_property(GLOBAL APPEND PROPERTY ATTN_TARGET_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
