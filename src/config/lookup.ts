import { ConfigError } from '../core/errors';
import { shown } from '../core/shown';
import { anyText, requireKind } from './call-options';
import { FRAGMENTS, type Fragment } from './fragments';
import { nearest } from './nearest';

/**
 * Finds a name that a document writes: the same word, another spelling ('autoWrapPolicy', 'NO_CHECKPOINT' alone), or the nearest
 * name.
 * Throws: CONFIG for a word that no document writes, and for a value that is not a text.
 */
export function findFragment(word: string): Fragment {
  requireKind('lookup', 'the argument', word, anyText);
  const exact = FRAGMENTS.find(({ name }) => name === word);
  if (exact !== undefined) return exact;
  const byKey = new Map<string, Fragment>();
  for (const fragment of FRAGMENTS) {
    for (const key of keysOf(fragment)) if (!byKey.has(key)) byKey.set(key, fragment);
  }
  for (const fragment of FRAGMENTS) byKey.set(keyOf(fragment.name), fragment);
  const near = nearest(keyOf(word), [...byKey.keys()]);
  const found = byKey.get(keyOf(word)) ?? (near === undefined ? undefined : byKey.get(near));
  if (found !== undefined) return found;
  throw new ConfigError(
    `lookup: no document writes ${shown(word)}; lookup() lists the ${FRAGMENTS.length} names, such as ${FRAGMENTS.slice(
      0,
      4,
    )
      .map(({ name }) => name)
      .join('; ')}`,
    { word: shown(word) },
  );
}

/** Returns a fragment as lines of text. */
export function fragmentText(fragment: Fragment): string {
  const { name, document, asWritten, inTheOriginal, tried, here, status, example } = fragment;
  const lines = [
    `${name} (${document}): ${status}`,
    `  as written       ${asWritten}`,
    `  in the original  ${inTheOriginal === '' ? 'as written' : inTheOriginal}`,
    ...tried.map(({ by, outcome }) => `  tried            ${by}: ${outcome}`),
    `  here             ${here}`,
  ];
  return [...lines, ...exampleLines(status, example)].join('\n');
}

function exampleLines(status: Fragment['status'], example: string | undefined): string[] {
  if (example === undefined) return [];
  const head = status === 'error' ? '  refused          ' : '  write            ';
  return [head + example.replaceAll('\n', `\n${' '.repeat(head.length)}`)];
}

/** Returns the words under which a fragment is found, as `keyOf` writes them: the parts of its name, and its flags. */
function keysOf({ name, asWritten }: Fragment): string[] {
  const parts = name.split(/[\s.,=()…]+/).filter((part) => part.length > 2);
  return [...parts, ...(asWritten.match(/--\w+/g) ?? [])].map(keyOf);
}

function keyOf(word: string): string {
  return word.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}
