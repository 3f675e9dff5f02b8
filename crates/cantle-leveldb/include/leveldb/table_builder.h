// Not provided: this header of LevelDB's is about tables, the files of LevelDB's own stores.

#error "leveldb/table_builder.h: a Cantle store has other files than LevelDB's; docs/bindings/leveldb-cpp.md has what there is instead"
