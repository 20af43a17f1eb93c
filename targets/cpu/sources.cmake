foreach(file Accumulate CpuTarget Emitter Functions Pairs Params Rows Scores Softmax Storage TileLowering VectorMath)
  set_property(GLOBAL APPEND PROPERTY ATTN_TARGET_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
