import { ShardlabError } from '../../core/errors';

/** The most differences that are named; the others are counted. */
const MOST_NAMED = 8;

/** Other facts about a name: its files, and why its values cannot be read. */
export interface FitFacts {
  readonly where?: (name: string) => string;
  readonly unread?: ReadonlyMap<string, string>;
}

/** Checks that arrays have exactly the expected names and shapes. Throws: SHAPE naming those that do not. */
export function requireFit(
  head: string,
  wanted: ReadonlyMap<string, readonly number[]>,
  given: ReadonlyMap<string, { readonly shape: readonly number[] }>,
  { where = () => '', unread }: FitFacts = {},
): void {
  const wrong = [...given.keys()].filter((name) => !wanted.has(name)).map((name) => `${name} is unknown`);
  for (const [name, shape] of wanted) {
    const array = given.get(name);
    if (array === undefined) wrong.push(`${name} ${unread?.get(name) ?? 'is missing'}`);
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
    `${head}: ${[...wrong.slice(0, MOST_NAMED), ...rest].join('; ')}. Build the model with the settings of the save`,
    { details: { wrong } },
  );
}
