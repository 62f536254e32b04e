import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { scriptLaunches } from '../../src/programs/script';
import { HAS_ALL_CASES } from '../support/cases';

// Launch scripts of known values: the reader gives the launch the words that bash gives it.

const NAMES = ['A', 'B', 'SIZE', 'LR'] as const;
const name = fc.constantFrom(...NAMES);
const plain = fc.constantFrom('1', '2', '13', 'x', 'true', '1e-3', 'a_b', './data', 'Qwen/Qwen2');
const blanks = fc.constantFrom('a b', ' x  y ', '--k 3', 'it is # no comment', "quo'te", '$5 and *', 'a\\b');

/** A word of a script, as it is written. Variables that are not quoted have values without signs that bash expands. */
const word: fc.Arbitrary<string> = fc.oneof(
  plain,
  plain.map((text) => `"${text}"`),
  blanks.filter((text) => !text.includes("'")).map((text) => `'${text}'`),
  name.map((each) => `$${each}`),
  name.map((each) => `"\${${each}}"`),
  fc.tuple(name, plain).map(([each, text]) => `\${${each}:-${text}}`),
  fc.tuple(plain, name).map(([text, each]) => `${text}-"$${each}"`),
  fc
    .tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 1, max: 9 }))
    .map(([a, b]) => `$((${a} * ${b} + N))`),
);

const list = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join(' '));

const assignment: fc.Arbitrary<string> = fc.oneof(
  fc.tuple(name, plain).map(([each, text]) => `${each}=${text}`),
  fc.tuple(name, plain).map(([each, text]) => `export ${each}="${text}"`),
  fc.tuple(name, name, plain).map(([each, from, text]) => `${each}="\${${from}}${text}"`),
  fc.tuple(name, plain).map(([each, text]) => `${each}+=${text}`),
  fc.tuple(name, fc.constantFrom('a b', ' x  y', '--k 3')).map(([each, text]) => `${each}="${text}"`),
  fc.tuple(name, name).map(([each, from]) => `${each}=$${from}`),
  name.map((each) => `${each}="all $`.concat('{MORE[@]}"')),
  list.map((words) => `MORE=(${words})`),
  list.map((words) => `MORE+=(${words})`),
  fc.integer({ min: 1, max: 9 }).map((n) => `N=${n}`),
);

const condition: fc.Arbitrary<string> = fc.oneof(
  fc
    .tuple(name, fc.constantFrom('=', '!='), plain)
    .map(([each, sign, text]) => `[ "$${each}" ${sign} ${text} ]`),
  fc.tuple(name, plain).map(([each, text]) => `[[ $${each} == "${text}" ]]`),
  fc
    .tuple(fc.constantFrom('-eq', '-ne', '-gt', '-ge', '-lt', '-le'), fc.integer({ min: 0, max: 9 }))
    .map(([sign, n]) => `[ $N ${sign} ${n} ]`),
  name.map((each) => `[ -n "$${each}" ]`),
  name.map((each) => `test -z "$${each}"`),
);

interface Scripts {
  readonly statement: string;
  readonly block: string;
}

const { block } = fc.letrec<Scripts>((tie) => ({
  statement: fc.oneof(
    { weight: 4, arbitrary: assignment },
    {
      weight: 2,
      arbitrary: fc
        .tuple(condition, tie('block'), condition, tie('block'), tie('block'))
        .map(
          ([a, one, b, two, three]) => `if ${a}; then\n${one}\nelif ${b}\nthen\n${two}\nelse\n${three}\nfi`,
        ),
    },
    { weight: 1, arbitrary: fc.tuple(condition, tie('block')).map(([a, one]) => `if ${a}; then ${one}; fi`) },
    { weight: 1, arbitrary: plain.map((text) => `# ${text}`) },
  ),
  // A comment would end the line of `then …; fi`.
  block: fc
    .array(tie('statement'), { minLength: 1, maxLength: 3 })
    .map((lines) => lines.join('\n').concat('\n:')),
}));

const launch = fc
  .array(
    fc.oneof(
      word.map((text) => `--key ${text}`),
      fc.constant('"$'.concat('{MORE[@]}"')),
      fc.constant('"--key x$'.concat('{MORE[@]}y"')),
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((words) => `swift sft ${words.join(' \\\n  ')}`);

const script = fc
  .tuple(block, launch)
  .map(([lines, last]) => `A=1\nB=x\nSIZE=13\nLR=1e-3\nN=4\nMORE=(--first 1)\n${lines}\n${last}\n`);

/** The words that bash gives each launch. */
function byBash(texts: readonly string[]): readonly (readonly string[])[] {
  const shell = 'swift() { printf "%s\\0" "$@"; printf "END\\0"; }';
  const all = texts.map((text) => `( ${shell}\nset -f\n${text}\n)`).join('\n');
  const out = execFileSync('bash', ['-s'], { input: all, encoding: 'utf8', env: { PATH: process.env.PATH } });
  return out
    .split('END\0')
    .slice(0, -1)
    .map((words) => words.split('\0').slice(1, -1));
}

/** The words of a launch, as its entries have them. */
function byReader(text: string): readonly (readonly [string, unknown])[] {
  const [first, second] = scriptLaunches(text, 'a.sh');
  assert.ok(first !== undefined && second === undefined, text);
  const own = first.sources.filter(({ dialect }) => dialect.name.includes('swift'));
  return own.flatMap(({ entries }) => entries.map(({ key, value }) => [key, value] as const));
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

const NUM_SCRIPTS = HAS_ALL_CASES ? 2000 : 400;

test('random scripts give their launch the words that bash gives it', () => {
  const texts = fc.sample(script, { numRuns: NUM_SCRIPTS, seed: 35 });
  const expected = byBash(texts);
  assert.equal(expected.length, texts.length);
  for (const [i, text] of texts.entries()) {
    const words = expected[i] ?? [];
    assert.deepEqual(byReader(text), byReader(`swift sft ${words.map(quoted).join(' ')}\n`), text);
  }
});
