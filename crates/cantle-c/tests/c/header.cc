// The header in C++: it compiles by itself, without warnings, and its functions are C's.
#include <cantle.h>

#include <cstring>
#include <memory>
#include <string>

namespace {

struct Close {
    void operator()(cantle_db *db) const { cantle_close(db, nullptr); }
};

int compare(void *, const char *a, std::size_t a_len, const char *b, std::size_t b_len) {
    return std::string(b, b_len).compare(std::string(a, a_len));
}

const char *change(void *user, const char *, std::size_t, std::size_t *new_len) {
    auto *text = static_cast<std::string *>(user);
    *new_len = text->size();
    return text->data();
}

void append(void *user, std::size_t, cantle_status, const char *value, std::size_t value_len, const cantle_error *) {
    static_cast<std::string *>(user)->append(value == nullptr ? "" : value, value_len);
}

int run(void *, cantle_transaction *tx, cantle_error **error) {
    return cantle_transaction_put(tx, nullptr, "t", 1, "1", 1, error);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 1;
    const std::string path = std::string(argv[1]) + "/store";
    cantle_comparator *order = cantle_comparator_new("test.reverse", nullptr, compare, nullptr, true, nullptr, nullptr);
    cantle_keyspace_options *keyspace = cantle_keyspace_options_new();
    cantle_keyspace_options_comparator(keyspace, order);
    cantle_keyspace_options_compression(keyspace, CANTLE_ZSTD, 3);
    cantle_options *options = cantle_options_new();
    cantle_options_durability(options, CANTLE_PROCESS);
    cantle_options_default_keyspace(options, keyspace);
    cantle_error *error = nullptr;
    std::unique_ptr<cantle_db, Close> db(cantle_open(path.c_str(), options, &error));
    if (!db || error != nullptr) return 2;
    std::string value = "new";
    if (cantle_put(db.get(), nullptr, "a", 1, "1", 1, &error) != CANTLE_OK) return 3;
    if (cantle_update(db.get(), nullptr, "b", 1, change, &value, nullptr, nullptr, &error) != CANTLE_OK) return 4;
    if (cantle_transact(db.get(), run, nullptr, &error) != CANTLE_OK) return 5;
    const cantle_slice wanted[] = {{"b", 1}, {"absent", 6}};
    std::string received;
    if (cantle_get_many(db.get(), nullptr, wanted, 2, append, &received, &error) != CANTLE_OK) return 7;
    if (received != "new") return 8;
    cantle_iterator *it = cantle_iterator_new(db.get(), nullptr, nullptr, &error);
    cantle_slice key, found;
    std::string keys;
    while (cantle_iterator_next(it, &key, &found, &error)) keys.append(key.data, key.len);
    cantle_iterator_free(it);
    cantle_options_free(options);
    cantle_keyspace_options_free(keyspace);
    cantle_comparator_free(order);
    return keys == "tba" && error == nullptr ? 0 : 6;
}
