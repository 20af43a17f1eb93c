foreach(file Emitter Functions Limits Loops Params Program Regions Storage VectorMath)
  set_property(GLOBAL APPEND PROPERTY ATTN_TARGET_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
