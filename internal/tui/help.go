package tui

// helpLines list the keys of the pane, h lines of them.
func (s *Screen) helpLines(w, h int) []string {
	name := s.top().name()
	lines := []string{s.styles.head.Render(pad("keys of "+name, w)), ""}
	for _, list := range []string{name, "everywhere"} {
		for _, b := range keysOf(list) {
			lines = append(lines, layRow(Row{b.Help().Key, b.Does}, 10, w)...)
		}
		lines = append(lines, "")
	}
	for len(lines) < h {
		lines = append(lines, "")
	}
	return lines[:h]
}
