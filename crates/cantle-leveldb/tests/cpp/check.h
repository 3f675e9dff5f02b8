// Macros and functions that the test programs share. The programs are also compiled with LevelDB's
// own headers and library, so they use nothing but LevelDB's interface, except where CANTLE_LEVELDB
// is defined. Each takes an empty directory as its argument.

#ifndef CANTLE_TESTS_CHECK_H
#define CANTLE_TESTS_CHECK_H

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (false)

#define CHECK_OK(expression)                                                                                        \
  do {                                                                                                              \
    const leveldb::Status checked = (expression);                                                                   \
    if (!checked.ok()) {                                                                                            \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #expression, checked.ToString().c_str());         \
      std::exit(1);                                                                                                 \
    }                                                                                                               \
  } while (false)

#define CHECK_TEXT(expression, expected)                                                                            \
  do {                                                                                                              \
    const std::string got = (expression), wanted = (expected);                                                      \
    if (got != wanted) {                                                                                            \
      std::fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #expression, got.c_str(),       \
                   wanted.c_str());                                                                                 \
      std::exit(1);                                                                                                 \
    }                                                                                                               \
  } while (false)

inline std::string directory_of(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s EMPTY-DIRECTORY\n", count > 0 ? arguments[0] : "test");
    std::exit(2);
  }
  return arguments[1];
}

#endif
