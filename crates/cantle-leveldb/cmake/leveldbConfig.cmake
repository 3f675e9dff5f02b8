# find_package(leveldb): LevelDB's C and C++ interfaces over Cantle, as the target leveldb::leveldb.
#
# A program that is built with CMAKE_PREFIX_PATH set to the prefix of this installation links Cantle
# instead of LevelDB. Set CANTLE_LEVELDB_STATIC to true before find_package to link
# libcantle_leveldb.a.

include(CMakeFindDependencyMacro)
find_dependency(Threads)

# This file is in <prefix>/<library directory>/cmake/leveldb. The library directory may have two
# levels, as in lib/x86_64-linux-gnu.
get_filename_component(_cantle_libraries "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_cantle_above "${_cantle_libraries}/.." ABSOLUTE)
if(NOT EXISTS "${_cantle_above}/include/leveldb/cantle/store.h")
  get_filename_component(_cantle_above "${_cantle_above}/.." ABSOLUTE)
endif()
set(_cantle_include "${_cantle_above}/include")

if(CANTLE_LEVELDB_STATIC)
  set(_cantle_kind STATIC)
  set(_cantle_library "${_cantle_libraries}/libcantle_leveldb.a")
  # System libraries that the Rust library needs; `cargo rustc -- --print native-static-libs` lists
  # them.
  set(_cantle_needs Threads::Threads gcc_s util rt m dl)
else()
  set(_cantle_kind SHARED)
  set(_cantle_library "${_cantle_libraries}/libcantle_leveldb.so")
  set(_cantle_needs Threads::Threads)
endif()

set(leveldb_FOUND TRUE)
foreach(_cantle_file IN ITEMS "${_cantle_include}/leveldb/cantle/store.h" "${_cantle_library}")
  if(NOT EXISTS "${_cantle_file}")
    set(leveldb_FOUND FALSE)
    set(leveldb_NOT_FOUND_MESSAGE "Cantle's installation is not whole: there is no ${_cantle_file}. Install it again.")
  endif()
endforeach()

if(leveldb_FOUND AND NOT TARGET leveldb::leveldb)
  add_library(leveldb::leveldb ${_cantle_kind} IMPORTED)
  set_target_properties(leveldb::leveldb PROPERTIES
    IMPORTED_LOCATION "${_cantle_library}"
    INTERFACE_INCLUDE_DIRECTORIES "${_cantle_include}"
    INTERFACE_COMPILE_FEATURES cxx_std_11
    INTERFACE_LINK_LIBRARIES "${_cantle_needs}")
endif()

unset(_cantle_above)
unset(_cantle_file)
unset(_cantle_include)
unset(_cantle_kind)
unset(_cantle_libraries)
unset(_cantle_library)
unset(_cantle_needs)
