/** A command as shells complete it. */
export interface Completed {
  /** Its name, after the name of the command that it belongs to: ['bench', 'gpt']. */
  readonly words: readonly string[];
  readonly description: string;
  readonly options: readonly { readonly name: string; readonly description: string }[];
  /** The values that its first argument can have. */
  readonly arguments: readonly string[];
  readonly subcommands: readonly string[];
}

/** The script of each shell. */
export const SHELLS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

export type Shell = keyof typeof SHELLS;

/** The words that can follow a command. */
const following = ({ subcommands, arguments: values, options }: Completed): readonly string[] => [
  ...subcommands,
  ...values,
  ...options.map(({ name }) => name),
  '--help',
];

const topLevel = (commands: readonly Completed[]): readonly Completed[] =>
  commands.filter(({ words }) => words.length === 1);

/** Lines of a shell's `case` by the words before the cursor, subcommands first. */
function cases(commands: readonly Completed[]): string {
  return [...commands]
    .sort((a, b) => b.words.length - a.words.length)
    .map((command) => `    ${command.words.join('\\ ')}\\ *) found='${following(command).join(' ')}' ;;`)
    .join('\n');
}

const names = (commands: readonly Completed[]): string =>
  [...topLevel(commands).map(({ words }) => words[0]), '--help', '--version'].join(' ');

function bashScript(commands: readonly Completed[]): string {
  return `# Completes shardlab in bash.
_shardlab() {
  local found before="\${COMP_WORDS[*]:1:COMP_CWORD-1} "
  case "$before" in
${cases(commands)}
    *) found='${names(commands)}' ;;
  esac
  COMPREPLY=($(compgen -W "$found" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _shardlab shardlab
`;
}

function zshScript(commands: readonly Completed[]): string {
  return `#compdef shardlab
# Completes shardlab in zsh.
_shardlab() {
  local found before="\${words[2,CURRENT-1]} "
  case "$before" in
${cases(commands)}
    *) found='${names(commands)}' ;;
  esac
  compadd -- \${(s: :)found}
  _files
}
compdef _shardlab shardlab
`;
}

function fishScript(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ words, description, options, arguments: values }) => {
    const seen = words.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
    const above = words.slice(0, -1).map((word) => `__fish_seen_subcommand_from ${word}`);
    const before = above.length === 0 ? '__fish_use_subcommand' : above.join('; and ');
    return [
      `complete -c shardlab -n ${quoted(before)} -a ${words.at(-1)} -d ${quoted(description)}`,
      ...values.map((value) => `complete -c shardlab -n ${quoted(seen)} -a ${value}`),
      ...options.map(
        ({ name, description: text }) =>
          `complete -c shardlab -n ${quoted(seen)} -l ${name.slice(2)} -d ${quoted(text)}`,
      ),
    ];
  });
  return `# Completes shardlab in fish.\n${lines.join('\n')}\n`;
}

/** Returns a text in single quotes, as fish reads it. */
function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
