/** Colours of one picture. */
export interface Theme {
  readonly background: string;
  readonly strong: string;
  readonly soft: string;
}

/**
 * [Note: figures on paper] A figure brings its own light paper, the picture and the interactive figure alike, so that nothing changes
 * when one replaces the other. On transparent paper one grey would serve light and dark hosts, and no grey has a contrast of
 * 4.5 (WCAG 2) to white and to #111111. These have 15.9 and 7.0 to white.
 */
export const LIGHT: Theme = { background: '#ffffff', strong: '#222222', soft: '#595959' };
/** For pages that are dark throughout. */
export const DARK: Theme = { background: '#111111', strong: '#e4e4e4', soft: '#aaaaaa' };

const { strong: STRONG, soft: SOFT } = LIGHT;

/** Text in a figure's main colour. */
export function strong(text: string): string {
  return `<span style="color:${STRONG}">${text}</span>`;
}

/** Text in a figure's secondary colour. */
export function soft(text: string): string {
  return `<span style="color:${SOFT}">${text}</span>`;
}

/** Bold text in a figure's main colour. */
export function bold(text: string): string {
  return `<b>${strong(text)}</b>`;
}

/** Behind text on marks. */
export const PAPER_SHADE = `${LIGHT.background}d9`;

/** Puts a theme's colours in place of the light ones. */
export function themed(json: string, theme: Theme): string {
  const { background, strong: main, soft: second } = theme;
  return json.replaceAll(STRONG, main).replaceAll(SOFT, second).replaceAll(PAPER_SHADE, `${background}d9`);
}

/** A figure's text without markup. */
export function plain(text: string): string {
  return text.replaceAll(/<br>/g, ' ').replaceAll(/<[^>]+>/g, '');
}

/** Names of modules may hold any character; in figures they are shown as they are. */
export function safe(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Safe inside HTML, SVG and the values of their attributes. */
export function escapeHtml(text: string): string {
  return safe(text).replaceAll('"', '&quot;');
}

/** What a reader of safe text sees. */
export function unescaped(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}
