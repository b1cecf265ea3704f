# libraries.cmake: libraries of others that a part of Gyre cannot do without.
#
# gyre_require(PREFIX MODULE WHAT): the target PkgConfig::PREFIX, or an error that says how to get it.  WHAT needs it.
macro(gyre_require prefix module what)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
    endif()
    if(NOT PKG_CONFIG_FOUND OR NOT ${prefix}_FOUND)
        message(FATAL_ERROR "${what} needs ${module}, which is not found"
            " (${PKG_CONFIG_EXECUTABLE} --exists ${module}).\n"
            "Install pkg-config, libjansson-dev and libpcre2-dev: scripts/install-deps of this source does it on Debian and "
            "Ubuntu.  Elsewhere install pkg-config and the development packages of jansson and PCRE2.\n"
            "libsleef-dev and libyaml-dev may be absent: then angles of PyTorch, and YAML of trainers, are refused.\n"
            "-DGYRE_MODEL=OFF builds the library without readers of models.")
    endif()
endmacro()
