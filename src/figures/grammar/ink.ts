/** The colours of a picture. */
export interface Theme {
  readonly background: string;
  readonly strong: string;
  readonly soft: string;
}

/**
 * [Note: figures on paper] The picture and the interactive figure have the same light background, so that nothing changes when
 * one replaces the other. On a transparent background, the same text would be on light and on dark pages, and no grey has a
 * contrast of 4.5 (WCAG 2) to both white and #111111. The contrasts of these colours to white are 15.9 and 7.0.
 */
export const LIGHT: Theme = { background: '#ffffff', strong: '#222222', soft: '#595959' };
/** Colours for dark pages. */
export const DARK: Theme = { background: '#111111', strong: '#e4e4e4', soft: '#aaaaaa' };

const { strong: STRONG, soft: SOFT } = LIGHT;

/** Returns text in a figure's main colour. */
export function strong(text: string): string {
  return `<span style="color:${STRONG}">${text}</span>`;
}

/** Returns text in a figure's secondary colour. */
export function soft(text: string): string {
  return `<span style="color:${SOFT}">${text}</span>`;
}

/** Returns bold text in a figure's main colour. */
export function bold(text: string): string {
  return `<b>${strong(text)}</b>`;
}

/** The background of text that is on marks. */
export const PAPER_SHADE = `${LIGHT.background}d9`;

/** Replaces the light theme's colours by those of another theme. */
export function themed(json: string, theme: Theme): string {
  const { background, strong: main, soft: second } = theme;
  return json.replaceAll(STRONG, main).replaceAll(SOFT, second).replaceAll(PAPER_SHADE, `${background}d9`);
}

/** Removes the markup from a figure's text, and the escapes that `safe` made. */
export function plain(text: string): string {
  const bare = text.replaceAll(/<br>/g, ' ').replaceAll(/<[^>]+>/g, '');
  return bare.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

/** Escapes a name for figures' markup: names of modules may have any character. */
export function safe(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Escapes text for HTML, SVG and the values of their attributes. */
export function escapeHtml(text: string): string {
  return safe(text).replaceAll('"', '&quot;');
}

/** Undoes the escapes: returns the text that a reader sees. */
export function unescaped(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}
