/** Makes text safe inside HTML, SVG and attribute values. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** Rows as RFC 4180 text with a heading; null becomes an empty field. */
export function toCsvText(
  keys: readonly string[],
  rows: readonly Readonly<Record<string, unknown>>[],
): string {
  const lines = [keys.map(csvField).join(',')];
  for (const row of rows) lines.push(keys.map((key) => csvField(row[key])).join(','));
  return `${lines.join('\n')}\n`;
}

function csvField(value: unknown): string {
  const text = value === null || value === undefined ? '' : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
