# manual.cmake: man pages, which the command itself prints from its option tables, and completion for shells.  A command for
# another processor runs under CMAKE_CROSSCOMPILING_EMULATOR; without one there are no pages.
set(GYRE_MANUAL ON)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    set(GYRE_MANUAL OFF)
    message(STATUS "No man pages: they need a command that runs here (CMAKE_CROSSCOMPILING_EMULATOR)")
endif()
if(GYRE_MANUAL)
    add_custom_command(TARGET gyre_command POST_BUILD
        COMMAND ${CMAKE_COMMAND} "-DRUN=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:gyre_command>"
                -DFOLDER=${PROJECT_BINARY_DIR}/man -P ${PROJECT_SOURCE_DIR}/cmake/write_manual.cmake
        VERBATIM)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
# Folders that each shell looks into, below the prefix.
install(FILES completions/gyre.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME gyre)
install(FILES completions/_gyre DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES completions/gyre.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
