# install.cmake: installs the CMake package and the licence.  library.cmake installs libraries, headers and .pc files.
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/gyre-config.cmake.in gyre-config.cmake INSTALL_DESTINATION ${GYRE_PACKAGE_DIR})
write_basic_package_version_file(gyre-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gyre-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/gyre-config-version.cmake
        DESTINATION ${GYRE_PACKAGE_DIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
