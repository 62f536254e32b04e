/** What is printed of a module. */
interface Printed {
  readonly ownParameters: ReadonlyMap<string, { readonly shape: readonly number[] }>;
  readonly children: ReadonlyMap<string, Printed>;
}

/**
 * A module and all modules inside it, one per line; equal neighbours share one line. Source: torch.nn.Module's
 * representation.
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

/** Groups neighbours with the same text, which a list numbers. */
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
