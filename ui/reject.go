package ui

import "net/http"

func (u *UI) reject(w http.ResponseWriter, r *http.Request) { u.decide(w, r, false) }
