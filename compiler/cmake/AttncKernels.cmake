# attnc_add_kernels(TARGET SOURCES f.attn... TARGETS x86-64... [DEFINES N=V...])
#
# Compiles each variant of each .attn file for each machine at build time and
# links the objects into TARGET, an executable or library made in the same
# folder. For f.attn the header f.h, which declares the kernels, is on TARGET's
# include path. Link attnc::runtime or attnc::runtime_static as well.
function(attnc_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;TARGETS;DEFINES")
  if(NOT TARGET ${target})
    message(FATAL_ERROR "attnc_add_kernels: no target '${target}' here")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "attnc_add_kernels: what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT arg_SOURCES OR NOT arg_TARGETS)
    message(FATAL_ERROR "attnc_add_kernels: SOURCES and TARGETS are needed")
  endif()
  set(defines "")
  foreach(define IN LISTS arg_DEFINES)
    list(APPEND defines -D ${define})
  endforeach()
  list(JOIN arg_TARGETS "," machines)

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.kernels)
  file(MAKE_DIRECTORY ${folder})
  target_include_directories(${target} PRIVATE ${folder})
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(GET source STEM LAST_ONLY stem)
    set(header ${folder}/${stem}.h)
    add_custom_command(OUTPUT ${header}
      COMMAND attnc::attnc compile ${source} --emit header --target ${machines}
        ${defines} -o ${header}
      DEPENDS ${source} attnc::attnc VERBATIM
      COMMENT "attnc ${stem}.h")
    target_sources(${target} PRIVATE ${header})
    foreach(machine IN LISTS arg_TARGETS)
      # A folder each: every object gets a header of its own beside it.
      file(MAKE_DIRECTORY ${folder}/${machine})
      set(object ${folder}/${machine}/${stem}.o)
      add_custom_command(OUTPUT ${object}
        COMMAND attnc::attnc compile ${source} --emit obj --target ${machine}
          ${defines} -o ${object}
        DEPENDS ${source} attnc::attnc VERBATIM
        COMMENT "attnc ${stem}.o for ${machine}")
      set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
      target_sources(${target} PRIVATE ${object})
    endforeach()
  endforeach()
endfunction()
