package postgres

// NotePromotion has db believe that a connection found a promoted server.
func (db *DB) NotePromotion() { db.timeline.Add(1) }
