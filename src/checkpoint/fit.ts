import { ShardlabError } from '../core/errors';

/** Differences that are named; the rest is counted. */
const MOST_NAMED = 8;

/** Whether arrays have exactly the names and shapes that are wanted. Throws: SHAPE naming those that do not; `where` says of a name where it lies. */
export function requireFit(
  head: string,
  wanted: ReadonlyMap<string, readonly number[]>,
  given: ReadonlyMap<string, { readonly shape: readonly number[] }>,
  where: (name: string) => string = () => '',
): void {
  const wrong = [...given.keys()].filter((name) => !wanted.has(name)).map((name) => `${name} is unknown`);
  for (const [name, shape] of wanted) {
    const array = given.get(name);
    if (array === undefined) wrong.push(`${name} is missing`);
    else if (array.shape.join() !== shape.join()) {
      wrong.push(
        `${name} has shape [${array.shape.join(', ')}]${where(name)}, the model's is [${shape.join(', ')}]`,
      );
    }
  }
  if (wrong.length === 0) return;
  const rest = wrong.length > MOST_NAMED ? [`and ${wrong.length - MOST_NAMED} more`] : [];
  throw new ShardlabError(
    'SHAPE',
    `${head}: ${[...wrong.slice(0, MOST_NAMED), ...rest].join('; ')}. Build the model with the settings it was saved with`,
    { details: { wrong } },
  );
}
