// SPDX-License-Identifier: Apache-2.0
// What stands above a long list: its filter, how much of it was read, and who needs someone.
import { PAGE } from "../api/queries";
import { count, counted } from "../lib/format";

interface Props {
  /** What is filtered by: "name or state". */
  by: string;
  text: string;
  onText: (text: string) => void;
  /** Rows that pass the filter, of those that were read, of all. */
  shown: number;
  read: number;
  total: number | undefined;
  /** "node". */
  noun: string;
  isThere: boolean;
  hasMore: boolean;
  onMore: () => void;
  /** Who needs someone, after the counts. */
  words: string;
}

export function ListTools({ by, text, onText, shown, read, total, noun, isThere, hasMore, onMore, words }: Props) {
  const size = total !== undefined && total > read ? `${count(read)} of ${counted(total, noun)}` : counted(read, noun);
  return (
    <div className="tools">
      <input type="search" aria-label={`Filter by ${by}`} placeholder={by} value={text} onChange={(event) => onText(event.target.value)} />
      <span className="faint" role="status">
        {isThere && `${text ? `${count(shown)} shown, ` : ""}${size}${hasMore ? " read, those that need someone first; filters and sorting are of these" : ""}${words && read > 0 ? `; ${words}` : ""}`}
      </span>
      {text && hasMore && (
        <button type="button" onClick={onMore}>
          Read {count(PAGE)} more
        </button>
      )}
    </div>
  );
}
