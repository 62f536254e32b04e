/** The parts of a module that are printed. */
interface Printed {
  readonly ownParameters: ReadonlyMap<string, { readonly shape: readonly number[] }>;
  readonly children: ReadonlyMap<string, Printed>;
}

/**
 * Prints a module and all modules inside it, one per line; equal neighbours share one line. Source: the representation
 * of torch.nn.Module.
 */
export function moduleText(module: Printed): string {
  const parameters = [...module.ownParameters].map(([name, { shape }]) => `${name} [${shape.join(', ')}]`);
  const head = `${module.constructor.name}(${parameters.join(', ')}`;
  const children = [...module.children].map(([name, child]) => ({ name, text: moduleText(child) }));
  if (children.length === 0) return `${head})`;
  const lines = alike(children).map(({ first, last, count, text }) => {
    const many = count === 1 ? `(${first}): ` : `(${first}-${last}): ${count} x `;
    return `${many}${text}`.replace(/^/gm, '  ');
  });
  return [head, ...lines, ')'].join('\n');
}

interface Alike {
  readonly first: string;
  readonly last: string;
  readonly count: number;
  readonly text: string;
}

/** Groups neighbours that have the same text, if their names are numbers (items of a list). */
function alike(children: readonly { readonly name: string; readonly text: string }[]): Alike[] {
  const groups: Alike[] = [];
  for (const { name, text } of children) {
    const before = groups.at(-1);
    const joins = before?.text === text && /^\d+$/.test(name);
    if (joins) groups[groups.length - 1] = { ...before, last: name, count: before.count + 1 };
    else groups.push({ first: name, last: name, count: 1, text });
  }
  return groups;
}
