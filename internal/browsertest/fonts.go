package browsertest

import (
	"os"
	"path/filepath"
)

// fontConfig lets the browser find only the fonts that `task setup` installs. So pages have the same widths on every machine.
const fontConfig = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
	<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
	<selectfont>
		<rejectfont><pattern><patelt name="scalable"><bool>true</bool></patelt></pattern></rejectfont>
		<rejectfont><pattern><patelt name="scalable"><bool>false</bool></patelt></pattern></rejectfont>
		<acceptfont><pattern><patelt name="family"><string>DejaVu Sans</string></patelt></pattern></acceptfont>
		<acceptfont><pattern><patelt name="family"><string>DejaVu Sans Mono</string></patelt></pattern></acceptfont>
		<acceptfont><pattern><patelt name="family"><string>DejaVu Serif</string></patelt></pattern></acceptfont>
		<acceptfont><pattern><patelt name="family"><string>Noto Color Emoji</string></patelt></pattern></acceptfont>
		<acceptfont><pattern><patelt name="family"><string>IPAPGothic</string></patelt></pattern></acceptfont>
	</selectfont>
</fontconfig>
`

// writeFontConfig writes the browser's fontconfig file. Browsers that do not use fontconfig ignore it.
func writeFontConfig(t T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "fonts.conf")
	if err := os.WriteFile(path, []byte(fontConfig), 0o600); err != nil {
		t.Fatalf("choose the browser's fonts: %v", err)
	}
	return path
}
