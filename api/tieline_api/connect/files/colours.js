// The brand's colours.

/** How light a colour is, 0 to 1 (WCAG's relative luminance). @param {string} colour As `#rgb` or `#rrggbb`. */
export function luminanceOf(colour) {
  const digits = colour.length === 4 ? colour.replace(/[0-9a-f]/gi, "$&$&") : colour;
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Text on an accent: black or white, whichever is read better. @param {string} accent */
export function textOn(accent) {
  const light = luminanceOf(accent);
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

/** Sets them in place of the page's own. @param {Record<string, string>} colours */
export function paint(colours) {
  const { accent, onAccent } = colours;
  const all = accent && !onAccent ? { ...colours, onAccent: textOn(accent) } : colours;
  for (const [name, colour] of Object.entries(all)) {
    const property = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    document.documentElement.style.setProperty(property, colour);
  }
}
