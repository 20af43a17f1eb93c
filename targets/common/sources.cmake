foreach(file Emitter Functions Params Program Regions VectorMath)
  set_property(GLOBAL APPEND PROPERTY ATTN_TARGET_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
