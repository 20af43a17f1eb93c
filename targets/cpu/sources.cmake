foreach(file Accumulate CpuTarget Pairs Rows Scores Softmax TileLowering)
  set_property(GLOBAL APPEND PROPERTY ATTN_TARGET_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
