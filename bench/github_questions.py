"""Sixty questions as people ask them, and the operation of GitHub's API that answers each.

`make bench NAME=search` and `make test NAME=apis` fetch the document.
"""

from collections.abc import Sequence
from pathlib import Path

from toolfold.models import ToolSpec
from toolfold.sources.openapi.source import Api, api_tools
from toolfold.tools.search import Index

FOLDER = Path(__file__).parents[1] / "build" / "clients" / "github" / "node_modules"
DOCUMENT = "@octokit/openapi/generated/api.github.com.json"
RECALL = 0.8
"""At least, of the first five that are found."""

QUESTIONS = [
    ("close an issue", "issues_update"),
    ("open a new issue in a repository", "issues_create"),
    ("list the open issues of a repository", "issues_list_for_repo"),
    ("comment on an issue", "issues_create_comment"),
    ("add labels to an issue", "issues_add_labels"),
    ("assign somebody to an issue", "issues_add_assignees"),
    ("lock an issue's conversation", "issues_lock"),
    ("create a milestone", "issues_create_milestone"),
    ("list pull requests of a repository", "pulls_list"),
    ("open a pull request", "pulls_create"),
    ("merge a pull request", "pulls_merge"),
    ("which files does a pull request change", "pulls_list_files"),
    ("request reviewers for a pull request", "pulls_request_reviewers"),
    ("submit a review of a pull request", "pulls_submit_review"),
    ("list the commits on a pull request", "pulls_list_commits"),
    ("create a release", "repos_create_release"),
    ("get the latest release", "repos_get_latest_release"),
    ("delete a release", "repos_delete_release"),
    ("list the branches of a repository", "repos_list_branches"),
    ("protect a branch", "repos_update_branch_protection"),
    ("rename a branch", "repos_rename_branch"),
    ("list commits", "repos_list_commits"),
    ("compare two commits", "repos_compare_commits_with_basehead"),
    ("get the content of a file", "repos_get_content"),
    ("create or update a file", "repos_create_or_update_file_contents"),
    ("delete a file from a repository", "repos_delete_file"),
    ("get the README of a repository", "repos_get_readme"),
    ("fork a repository", "repos_create_fork"),
    ("add a collaborator to a repository", "repos_add_collaborator"),
    ("list contributors to a repository", "repos_list_contributors"),
    ("which languages does a repository use", "repos_list_languages"),
    ("create a repository in an organization", "repos_create_in_org"),
    ("list the repositories of an organization", "repos_list_for_org"),
    ("transfer a repository to another owner", "repos_transfer"),
    ("replace all topics of a repository", "repos_replace_all_topics"),
    ("create a webhook for a repository", "repos_create_webhook"),
    ("list deployments", "repos_list_deployments"),
    ("add a deploy key", "repos_create_deploy_key"),
    ("star a repository", "activity_star_repo_for_authenticated_user"),
    ("list my notifications", "activity_list_notifications_for_authenticated_user"),
    ("mark notifications as read", "activity_mark_notifications_as_read"),
    ("search code", "search_code"),
    ("search for repositories", "search_repos"),
    ("search issues and pull requests", "search_issues_and_pull_requests"),
    ("get a user by name", "users_get_by_username"),
    ("who am I, the authenticated user", "users_get_authenticated"),
    ("list followers of a user", "users_list_followers_for_user"),
    ("list members of an organization", "orgs_list_members"),
    ("invite somebody to an organization", "orgs_create_invitation"),
    ("create a team", "teams_create"),
    ("add a member to a team", "teams_add_or_update_membership_for_user_in_org"),
    ("list workflow runs of a repository", "actions_list_workflow_runs_for_repo"),
    ("re-run a workflow", "actions_re_run_workflow"),
    ("cancel a workflow run", "actions_cancel_workflow_run"),
    ("download the logs of a workflow run", "actions_download_workflow_run_logs"),
    ("create or update a repository secret", "actions_create_or_update_repo_secret"),
    ("create a gist", "gists_create"),
    ("list code scanning alerts of a repository", "code_scanning_list_alerts_for_repo"),
    ("create a git tag object", "git_create_tag"),
    ("what is my rate limit", "rate_limit_get"),
]


def operations(document: Path) -> list[ToolSpec]:
    """All of the document, as one source of tools."""
    api = Api(spec=document, name="github", base_url="https://api.github.com")
    return [tool.spec for tool in api_tools(api)]


def recall(specs: Sequence[ToolSpec]) -> float:
    """The share of the questions whose operation is among the first five."""
    index = Index(specs)
    hits = [name in {hit.spec.short_name for hit in index.search(text, limit=5)} for text, name in QUESTIONS]
    return sum(hits) / len(hits)
