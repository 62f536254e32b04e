const STRONG = 'var(--jp-ui-font-color1,var(--vscode-foreground,#7a7a7a))';
const SOFT = 'var(--jp-ui-font-color2,var(--vscode-descriptionForeground,#7a7a7a))';

/** Text in the host's main colour; plotly's own colours cannot follow a theme, spans can. */
export function strong(text: string): string {
  return `<span style="color:${STRONG}">${text}</span>`;
}

/** Text in the host's secondary colour. */
export function soft(text: string): string {
  return `<span style="color:${SOFT}">${text}</span>`;
}

/** Bold text in the host's main colour. */
export function bold(text: string): string {
  return `<b>${strong(text)}</b>`;
}

/** Around tick labels, which plotly makes itself. */
export const TICK_INK = { tickprefix: `<span style="color:${SOFT}">`, ticksuffix: '</span>' } as const;

/** Colours of one static picture. */
export interface Theme {
  readonly background: string;
  readonly strong: string;
  readonly soft: string;
}

export const LIGHT: Theme = { background: '#ffffff', strong: '#222222', soft: '#666666' };
export const DARK: Theme = { background: '#111111', strong: '#e4e4e4', soft: '#aaaaaa' };
/**
 * Without a background of its own, for hosts that show the same picture in light and in dark. Its greys have a contrast of
 * at least 4.3 (WCAG 2) to white and to #111111 alike.
 */
export const EITHER: Theme = { background: 'none', strong: '#797979', soft: '#797979' };

/** Puts a theme's colours in place of the host's variables. */
export function themed(json: string, theme: Theme): string {
  return json.replaceAll(STRONG, theme.strong).replaceAll(SOFT, theme.soft);
}

/** A figure's text without markup. */
export function plain(text: string): string {
  return text.replaceAll(/<br>/g, ' ').replaceAll(/<[^>]+>/g, '');
}

/** Names of modules may hold any character; in figures they are shown as they are. */
export function safe(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
