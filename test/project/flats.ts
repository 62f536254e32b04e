import { flatOf, importsOf, isDoor, type Sources } from './layers';

/** The size of a flat, and how it is used. */
export interface FlatFacts {
  readonly flat: string;
  readonly lines: number;
  readonly files: number;
  /** Lines of the median file, and of the file that 95% do not exceed. */
  readonly median: number;
  readonly p95: number;
  /** Numbers of values and of types that the door exports. */
  readonly values: number;
  readonly types: number;
  /** The number of imports of the door, in other flats and in the kernel. */
  readonly imports: number;
}

/** Facts of each of these flats; kernel's files are a flat without a door. */
export function flatFacts(sources: Sources, flats: readonly string[]): readonly FlatFacts[] {
  const imports = importsOf(sources).filter(({ to }) => isDoor(to));
  return flats.map((flat) => {
    const files = [...sources].filter(([path]) => (flatOf(path) ?? path.split('/')[0]) === flat);
    const lengths = files.map(([, text]) => text.trimEnd().split('\n').length).sort((a, b) => a - b);
    const at = (share: number): number => lengths[Math.floor((lengths.length - 1) * share)] ?? 0;
    const { values, types } = doorNames(sources.get(`src/${flat}/index.ts`) ?? '');
    return {
      flat,
      lines: lengths.reduce((sum, length) => sum + length, 0),
      files: files.length,
      median: at(0.5),
      p95: at(0.95),
      values: values.length,
      types: types.length,
      imports: imports.filter(({ to }) => to === `src/${flat}/index.ts`).length,
    };
  });
}

/** The names that a door exports, sorted; a namespace is one value. */
export function doorNames(text: string): {
  readonly values: readonly string[];
  readonly types: readonly string[];
} {
  const namespaces = [...text.matchAll(/^export \* as (\w+) from/gm)].map(([, name = '']) => ({
    isType: false,
    name,
  }));
  const named = [...text.matchAll(/^export (type )?\{([^}]*)\} from/gm)].flatMap(([, ofTypes, list = '']) =>
    list
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '')
      .map((name) => ({
        isType: ofTypes !== undefined || name.startsWith('type '),
        name: name.replace(/^type |.* as /g, ''),
      })),
  );
  const sorted = (isType: boolean): readonly string[] =>
    [...namespaces, ...named]
      .filter((one) => one.isType === isType)
      .map(({ name }) => name)
      .sort();
  return { values: sorted(false), types: sorted(true) };
}
