import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../support/paths';

/** A recipe of CONTRIBUTING.md. */
export interface Recipe {
  /** The heading, such as 'Add a figure'. */
  readonly title: string;
  /** The path of the example from the clone's root. */
  readonly patch: string;
  /** The files that the recipe names. */
  readonly files: readonly string[];
  /** The arguments of `npm test --` with which the recipe ends. */
  readonly suite: readonly string[];
}

/** The recipes, in the order of CONTRIBUTING.md. */
export function recipes(): readonly Recipe[] {
  const page = readFileSync(join(repositoryRoot(), 'CONTRIBUTING.md'), 'utf8');
  return page
    .split(/^## /m)
    .slice(1)
    .filter((text) => text.startsWith('Add '))
    .map((text) => ({
      title: text.split('\n')[0] ?? '',
      patch: /\]\((test\/recipes\/[\w-]+\.patch)\)/.exec(text)?.[1] ?? '',
      files: [...text.matchAll(/^\| `([^`]+)` \|/gm)].map(([, file = '']) => file),
      suite: (/^npm test -- (.+)$/m.exec(text)?.[1] ?? '').split(' ').filter((word) => word !== ''),
    }));
}
