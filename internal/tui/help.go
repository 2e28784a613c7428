package tui

// helpLines list the keys of the pane, as many as fit in h lines.
func (s *Screen) helpLines(w, h int) []string {
	name := s.top().name()
	return s.help.show(s.help.lay(w, func() []string {
		lines := []string{s.styles.head.Render(pad("keys of "+name, w)), ""}
		for _, list := range []string{name, "everywhere"} {
			for _, b := range keysOf(list) {
				lines = append(lines, layRow(Row{b.Help().Key, b.Does}, 10, w)...)
			}
			lines = append(lines, "")
		}
		return lines[:len(lines)-1]
	}), h)
}
