type Child = Node | string | false | null | undefined;

interface Attributes {
  readonly [name: string]: string | number | boolean | ((event: Event) => void) | undefined;
}

/** Makes an element. Attributes that are functions are listeners; false and undefined leave an attribute out. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== false && child !== null && child !== undefined));
  return element;
}

/** Returns the page's element with this id. Throws: Error if the template lacks it. */
export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element #${id}`);
  return element;
}

/** Makes a table with a caption; the first cell of each row is the row's heading. Columns of `words` have texts, not numbers. */
export function table(
  caption: string,
  columns: readonly string[],
  rows: readonly (readonly (Node | string)[])[],
  words: readonly number[] = [],
): HTMLElement {
  const cell = (child: Node | string, i: number): HTMLElement =>
    i === 0
      ? el('th', { scope: 'row' }, child)
      : el('td', words.includes(i) ? { class: 'words' } : {}, child);
  const heading = (column: string, i: number): HTMLElement =>
    el('th', words.includes(i) ? { scope: 'col', class: 'words' } : { scope: 'col' }, column);
  return el(
    'div',
    { class: 'scroll' },
    el(
      'table',
      {},
      el('caption', {}, caption),
      el('thead', {}, el('tr', {}, ...columns.map(heading))),
      el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map(cell)))),
    ),
  );
}
