// SPDX-License-Identifier: Apache-2.0
//! `names KIND PREFIX`: names for the completion of a shell, one a line.

use std::io::Write;

use canopy_controller_api::List;
use canopy_controller_api::query::{HostQuery, LinkQuery, ListQuery, NodeQuery};
use serde_json::Value;

use super::pages::PAGE;
use super::{segment, with_query};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::clean;

/// Names that are offered, at most: more do not help to choose.
const OFFERED: usize = 100;

/// Completes names in bash, behind what clap completes: the word behind a verb and a kind.
pub(super) const BASH: &str = r#"
_canopyctl_with_names() {
    _canopyctl "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" words=() flags=() skip="" word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ -n $skip ]]; then
            flags+=("$skip" "$word"); skip=""
        elif [[ $word == --server || $word == --context ]]; then
            skip="$word"
        elif [[ $word != -* ]]; then
            words+=("$word")
        fi
    done
    [[ ${#words[@]} == 2 && -z $skip && $cur != -* ]] || return 0
    case ${words[0]} in
        get | describe | why | top | delete | wait | drain | history | undo | diff) ;;
        *) return 0 ;;
    esac
    # Not compgen -W: it would expand what a name contains.
    while IFS= read -r word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done < <(canopyctl "${flags[@]}" names "${words[1]}" "$cur" 2>/dev/null)
    # The port of a node follows.
    [[ ${COMPREPLY[0]} != */ ]] || compopt -o nospace 2>/dev/null || true
}
complete -F _canopyctl_with_names -o nosort -o bashdefault -o default canopyctl
"#;

/// See the module. A kind without names has none.
///
/// # Errors
/// The controller cannot be reached.
pub async fn run(client: &Client, kind: &str, prefix: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let path = match kind.strip_suffix('s').unwrap_or(kind) {
        "group" => {
            let query = ListQuery { limit: Some(OFFERED), name_prefix: prefix.to_owned(), ..ListQuery::default() };
            with_query("/api/v1/groups", &query)?
        }
        "host" => {
            let (limit, name_contains) = (Some(PAGE), prefix.to_owned());
            with_query("/api/v1/hosts", &HostQuery { limit, name_contains, ..HostQuery::default() })?
        }
        "node" => nodes(prefix)?,
        // Those of one node, once its name is there; before, nodes.
        "link" => match prefix.split_once('/') {
            Some((node, _)) if segment("node", node).is_ok() => {
                let field_selector = format!("node={node}");
                with_query("/api/v1/links", &LinkQuery { limit: Some(PAGE), field_selector, next: None })?
            }
            Some(_) => return Ok(()),
            None => nodes(prefix)?,
        },
        "drain" => "/api/v1/drains".to_owned(),
        "silence" => "/api/v1/silences".to_owned(),
        _ => return Ok(()),
    };
    let list: List<Value> = client.get("reading names", &path).await?;
    let names = list.items.iter().filter_map(|item| item["metadata"]["name"].as_str());
    let end = if path.starts_with("/api/v1/nodes") && kind.starts_with("link") { "/" } else { "" };
    for name in names.filter(|name| name.starts_with(prefix)).take(OFFERED) {
        writeln!(out, "{}{end}", clean(name))?;
    }
    Ok(())
}

/// The request for nodes with this in their names.
fn nodes(part: &str) -> Result<String, Failure> {
    let (limit, name_contains) = (Some(PAGE), part.to_owned());
    with_query("/api/v1/nodes", &NodeQuery { limit, name_contains, summary: true, ..NodeQuery::default() })
}
