# attnc_add_kernels(TARGET SOURCES f.attn... TARGETS x86-64... [DEFINES N=V...])
#
# Compiles each variant of each .attn file for each machine at build time and
# links them, an object a file, into TARGET, an executable or library made in
# the same folder. For f.attn the header f.h, which declares the kernels and,
# with several machines, what picks one, is on TARGET's include path. Link
# attnc::runtime or attnc::runtime_static as well.
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
    set(object ${folder}/${stem}.o)
    set(header ${folder}/${stem}.h)
    add_custom_command(OUTPUT ${object} ${header}
      COMMAND attnc::attnc compile ${source} --emit obj --target ${machines}
        ${defines} -o ${object}
      DEPENDS ${source} attnc::attnc VERBATIM
      COMMENT "attnc ${stem}.o")
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    target_sources(${target} PRIVATE ${object} ${header})
  endforeach()
endfunction()
