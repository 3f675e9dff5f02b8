/* Composite keys: building, order, ranges, reading back. */
#include "check.h"

/* No deeper than can be read back, no longer than a store takes, and no part of itself. */
static void too_deep_and_too_long(void) {
    cantle_key *key = cantle_key_new(), *outer, *read;
    cantle_slice data;
    static char bytes[1 << 20];
    OK(cantle_key_int(key, 7, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_append_nested(key, key, &error));
    for (int level = 1; level <= 32; level++) {
        outer = cantle_key_new();
        OK(cantle_key_append_nested(outer, key, &error));
        CHECK(cantle_key_free(key) == CANTLE_OK);
        key = outer;
    }
    data = cantle_key_data(key);
    SOME(read, cantle_key_parse(data.data, data.len, &error));
    outer = cantle_key_new();
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_append_nested(outer, key, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_append_nested(outer, read, &error));
    CHECK(cantle_key_count(outer) == 0 && cantle_key_data(outer).len == 0);
    CHECK(cantle_key_free(read) == CANTLE_OK && cantle_key_free(outer) == CANTLE_OK);
    CHECK(cantle_key_clear(key) == CANTLE_OK);

    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_bytes(key, bytes, sizeof bytes, &error)); /* each is escaped */
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_text(key, bytes, SIZE_MAX, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_bytes(key, bytes, (size_t)1 << 40, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_key_parse(bytes, (size_t)1 << 40, &error));
    CHECK(cantle_key_count(key) == 0);
    memset(bytes, 'x', sizeof bytes);
    OK(cantle_key_bytes(key, bytes, 640000, &error));
    cantle_key *twice = cantle_key_new();
    OK(cantle_key_append_nested(twice, key, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_append_nested(twice, key, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_text(twice, bytes, 480000, &error));
    CHECK(cantle_key_count(twice) == 1);
    CHECK(cantle_key_free(key) == CANTLE_OK && cantle_key_free(twice) == CANTLE_OK);
}

/* Parts of types that other languages have. */
static void types(void) {
    static const unsigned char uuid[16] = {0x12, 0x34, 0x56}, stamp[12] = {7}, ones[255] = {0xff}, wide[256] = {1};
    static const unsigned char zeros_and_one[20] = {[19] = 1};
    cantle_key *key = cantle_key_new(), *parsed;
    cantle_part part;
    OK(cantle_key_uint(key, UINT64_MAX, &error));
    OK(cantle_key_uint(key, 5, &error));
    OK(cantle_key_big_int(key, true, "\1\0\0\0\0\0\0\0\0", 9, &error));
    OK(cantle_key_big_int(key, true, zeros_and_one, 20, &error));
    OK(cantle_key_big_int(key, false, ones, 255, &error));
    OK(cantle_key_big_int(key, true, NULL, 0, &error));
    OK(cantle_key_float32(key, -42.0f, &error));
    OK(cantle_key_uuid(key, uuid, 16, &error));
    OK(cantle_key_versionstamp(key, stamp, 12, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_big_int(key, false, wide, 256, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_big_int(key, false, NULL, 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_uuid(key, uuid, 15, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_uuid(key, wide, 17, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_versionstamp(key, NULL, 12, &error));
    cantle_slice data = cantle_key_data(key);
    /* The first bytes of each part, as another language wrote them. */
    static const char first[] = "\x1c\xff\xff\xff\xff\xff\xff\xff\xff\x15\5\x0b\xf6\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x13\xfe\x1d\xff\xff";
    CHECK(memcmp(data.data, first, sizeof first - 1) == 0);
    SOME(parsed, cantle_key_parse(data.data, data.len, &error));
    CHECK(cantle_key_count(parsed) == 9);
    OK(cantle_key_part(parsed, 0, &part, &error));
    CHECK(part.kind == CANTLE_PART_BIG_INT && part.integer == 1 && part.bytes.len == 8 && part.bytes.data[7] == (char)0xff);
    OK(cantle_key_part(parsed, 1, &part, &error));
    CHECK(part.kind == CANTLE_PART_INT && part.integer == 5);
    OK(cantle_key_part(parsed, 2, &part, &error));
    CHECK(part.kind == CANTLE_PART_BIG_INT && part.integer == -1 && part.bytes.len == 9 && part.bytes.data[0] == 1);
    OK(cantle_key_part(parsed, 3, &part, &error));
    CHECK(part.kind == CANTLE_PART_INT && part.integer == -1);
    OK(cantle_key_part(parsed, 4, &part, &error));
    CHECK(part.kind == CANTLE_PART_BIG_INT && part.integer == 1 && part.bytes.len == 255);
    OK(cantle_key_part(parsed, 5, &part, &error));
    CHECK(part.kind == CANTLE_PART_INT && part.integer == 0);
    OK(cantle_key_part(parsed, 6, &part, &error));
    CHECK(part.kind == CANTLE_PART_FLOAT32 && part.number < -41.9 && part.number > -42.1);
    OK(cantle_key_part(parsed, 7, &part, &error));
    CHECK(part.kind == CANTLE_PART_UUID && part.bytes.len == 16 && memcmp(part.bytes.data, uuid, 16) == 0);
    OK(cantle_key_part(parsed, 8, &part, &error));
    CHECK(part.kind == CANTLE_PART_VERSIONSTAMP && part.bytes.len == 12 && memcmp(part.bytes.data, stamp, 12) == 0);
    CHECK(cantle_key_free(parsed) == CANTLE_OK && cantle_key_free(key) == CANTLE_OK);
}

int main(int argc, char **argv) {
    begin(argc);
    types();
    cantle_key *key = cantle_key_new(), *other = cantle_key_new(), *nested = cantle_key_new(), *parsed;
    cantle_part part;
    OK(cantle_key_text(key, "UA", 2, &error));
    OK(cantle_key_int(key, -2, &error));
    OK(cantle_key_text(other, "UA", 2, &error));
    OK(cantle_key_int(other, 10, &error));
    cantle_slice a = cantle_key_data(key), b = cantle_key_data(other);
    CHECK(memcmp(a.data, b.data, a.len < b.len ? a.len : b.len) < 0);

    OK(cantle_key_int(nested, 1, &error));
    OK(cantle_key_null(nested, &error));
    OK(cantle_key_bytes(key, "\0\xff", 2, &error));
    OK(cantle_key_float(key, 0.5, &error));
    OK(cantle_key_bool(key, true, &error));
    OK(cantle_key_null(key, &error));
    OK(cantle_key_append_nested(key, nested, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_append_nested(key, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_text(key, "\xff", 1, &error));
    CHECK(cantle_key_count(key) == 7);
    a = cantle_key_data(key);
    SOME(parsed, cantle_key_parse(a.data, a.len, &error));
    CHECK(cantle_key_count(parsed) == 7);
    OK(cantle_key_part(parsed, 0, &part, &error));
    CHECK(part.kind == CANTLE_PART_TEXT && is(part.bytes, "UA"));
    OK(cantle_key_part(parsed, 1, &part, &error));
    CHECK(part.kind == CANTLE_PART_INT && part.integer == -2);
    OK(cantle_key_part(parsed, 2, &part, &error));
    CHECK(part.kind == CANTLE_PART_BYTES && part.bytes.len == 2 && part.bytes.data[0] == 0);
    OK(cantle_key_part(parsed, 3, &part, &error));
    CHECK(part.kind == CANTLE_PART_FLOAT && part.number > 0.49 && part.number < 0.51);
    OK(cantle_key_part(parsed, 4, &part, &error));
    CHECK(part.kind == CANTLE_PART_BOOL && part.integer == 1);
    OK(cantle_key_part(parsed, 5, &part, &error));
    CHECK(part.kind == CANTLE_PART_NULL);
    OK(cantle_key_part(parsed, 6, &part, &error));
    CHECK(part.kind == CANTLE_PART_NESTED);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_key_part(parsed, 7, &part, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_key_nested(parsed, 0, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_key_parse("\x99", 1, &error));
    cantle_key *inner;
    SOME(inner, cantle_key_nested(parsed, 6, &error));
    OK(cantle_key_part(inner, 0, &part, &error));
    CHECK(cantle_key_count(inner) == 2 && part.kind == CANTLE_PART_INT && part.integer == 1);
    b = cantle_key_data(nested);
    a = cantle_key_data(inner);
    CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);

    /* Every key that begins with the parts, and no other. */
    cantle_db *db;
    cantle_iterator *it;
    cantle_range range;
    cantle_slice found;
    cantle_error *error = NULL;
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    static const char *carriers[] = {"UA", "UA\0L", "UAL"};
    for (int i = 0; i < 3; i++) {
        for (int number = -1; number <= 1; number++) {
            CHECK(cantle_key_clear(key) == CANTLE_OK);
            OK(cantle_key_text(key, carriers[i], i == 0 ? 2 : i == 1 ? 4 : 3, &error));
            OK(cantle_key_int(key, number, &error));
            a = cantle_key_data(key);
            OK(cantle_put(db, NULL, a.data, a.len, "v", 1, &error));
        }
    }
    CHECK(cantle_key_clear(key) == CANTLE_OK);
    OK(cantle_key_text(key, "UA", 2, &error));
    OK(cantle_key_range(key, &range, &error));
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    int expected = -1;
    while (cantle_iterator_next(it, &found, NULL, &error)) {
        cantle_key *read;
        SOME(read, cantle_key_parse(found.data, found.len, &error));
        OK(cantle_key_part(read, 1, &part, &error));
        CHECK(part.integer == expected++);
        CHECK(cantle_key_free(read) == CANTLE_OK);
    }
    CHECK(expected == 2 && error == NULL);

    /* A range stays where it is until the key changes, however often it is asked for. */
    cantle_range again;
    OK(cantle_key_range(key, &again, &error));
    CHECK(again.start.key.data == range.start.key.data && again.end.key.data == range.end.key.data);
    CHECK(range.end.key.len == range.start.key.len + 1);
    CHECK(memcmp(range.end.key.data, range.start.key.data, range.start.key.len) == 0);
    OK(cantle_key_int(key, 0, &error));
    OK(cantle_key_range(key, &again, &error));
    a = cantle_key_data(key);
    CHECK(again.end.key.len == a.len + 1 && memcmp(again.end.key.data, a.data, a.len) == 0);
    CHECK(cantle_iterator_free(it) == CANTLE_OK);
    OK(cantle_close(db, &error));
    CHECK(cantle_key_free(key) == CANTLE_OK && cantle_key_free(key) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_key_free(other) == CANTLE_OK && cantle_key_free(nested) == CANTLE_OK);
    CHECK(cantle_key_free(parsed) == CANTLE_OK && cantle_key_free(inner) == CANTLE_OK);
    too_deep_and_too_long();
    return 0;
}
