package review

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Votes are the policies of a call and the votes on it.
type Votes struct {
	Policies   []PolicyProgress
	Remarks    []VoteRemark // votes that say more than the lines
	Rejections text.Message // how many there are and end the call; zero: one ends it
}

// PolicyProgress is how far the votes meet a policy.
type PolicyProgress struct {
	Name, URL    string
	Met          bool
	Alternatives [][]LineProgress
}

// LineProgress is how far the votes meet a line of a policy.
type LineProgress struct {
	Count int
	Names []string // teams and people; none: any reviewer
	By    []Voter
	More  int // approvals that it still needs
}

// Voter is a person who voted.
type Voter struct {
	Name string
	At   time.Time
}

// VoteRemark is a rejection, a vote with a note, or one that does not count.
type VoteRemark struct {
	Voter
	Approves bool
	Note     string
	Why      text.Message // it does not count; zero: it does
}

// Ballot is what an approval of the reader would be.
type Ballot struct {
	Have, Needed int // approvals, with it
	Last         bool
}

// label says on a button what the approval would do.
func (b *Ballot) label(word text.Message) text.Message {
	switch {
	case b == nil:
		return word
	case b.Last:
		return text.VotesLast(word)
	}
	return text.VotesOneOf(word, b.Have, b.Needed)
}

// Glass is an approval that one person gave alone.
type Glass struct {
	By        string
	At        time.Time
	Reason    string
	Review    *view.Decision // nil: nobody has reviewed it
	MayReview bool
	Own       bool         // the reader gave it
	Draft     string       // of the review's note
	Error     text.Message // about Draft
}

func (s *subject) hasPolicies() bool { return s.approval != nil && len(s.approval.Policies) > 0 }

// ownVote returns the reader's vote on a pending call, or nil.
func (s *subject) ownVote() *approval.Vote {
	if !s.isPending() || s.tally == nil {
		return nil
	}
	for i := range s.tally.Votes {
		if v := &s.tally.Votes[i]; v.By == s.access.Person.ID && s.approval.Counts(v) {
			return v
		}
	}
	return nil
}

// isAsked reports whether an approval of the reader counts.
func (s *subject) isAsked() bool {
	return policy.Ask(s.approval.Policies, &s.voter)
}

// presentBallot returns what an approval of the reader would be, or nil without policies.
func (s *subject) presentBallot() *Ballot {
	if !s.isPending() || !s.hasPolicies() || s.proposing {
		return nil
	}
	var voters []policy.Voter
	if !s.edited { // the votes are about these arguments
		voters = slices.Clone(s.tally.Voters)
	}
	voters = append(voters, s.voter)
	b := &Ballot{Last: policy.AreMet(s.approval.Policies, voters)}
	b.Have, b.Needed = policy.CountApprovals(s.approval.Policies, voters)
	return b
}

// presentVotes returns nil if the call has no policies.
func (s *subject) presentVotes() *Votes {
	if !s.hasPolicies() {
		return nil
	}
	policies, t, v := s.approval.Policies, s.tally, &Votes{}
	at, placed := map[uuid.UUID]time.Time{}, map[uuid.UUID]bool{}
	for i := range t.Votes {
		if t.Counts(s.approval, &t.Votes[i]) {
			at[t.Votes[i].By] = t.Votes[i].At
		}
	}
	for i := range policies {
		shown := PolicyProgress{Name: policies[i].Name, URL: present.PolicyURL(policies[i].Name), Met: policies[i].IsMet(t.Voters)}
		for _, progress := range policies[i].Measure(t.Voters) {
			var lines []LineProgress
			for j := range progress.Lines {
				line := &progress.Lines[j]
				one := LineProgress{Count: line.Count, Names: slices.Concat(line.Teams, line.People), More: line.Count - len(line.By)}
				for _, person := range line.By {
					placed[person] = true
					one.By = append(one.By, Voter{present.PersonName(person, s.names), at[person]})
				}
				lines = append(lines, one)
			}
			shown.Alternatives = append(shown.Alternatives, lines)
		}
		v.Policies = append(v.Policies, shown)
	}
	for i := range t.Votes {
		one := &t.Votes[i]
		why := s.whyVoid(one, placed)
		if !one.Approves || one.Note != "" || !why.IsZero() {
			v.Remarks = append(v.Remarks, VoteRemark{Voter{present.PersonName(one.By, s.names), one.At}, one.Approves, one.Note, why})
		}
	}
	if needed := policy.CountRejections(policies); needed > 1 {
		v.Rejections = text.VotesRejections(t.Rejections, needed)
	}
	return v
}

// whyVoid says why a vote does not count. It returns zero if it does.
func (s *subject) whyVoid(v *approval.Vote, placed map[uuid.UUID]bool) text.Message {
	at := slices.IndexFunc(s.tally.Voters, func(one policy.Voter) bool { return one.Person == v.By })
	switch {
	case v.Digest != s.approval.VotesDigest():
		return text.VotesVoidEdited()
	case v.VoidAt != nil:
		return text.VotesVoid()
	case slices.Contains(s.tally.Lost, v.By):
		return text.VotesVoidPerson()
	case !v.Approves, placed[v.By]:
		return text.Message{}
	case at < 0: // it is another account of a person who voted
		return text.VotesVoidTwice()
	case !policy.Ask(s.approval.Policies, &s.tally.Voters[at]):
		return text.VotesVoidTeam()
	}
	return text.VotesSpare()
}

// hashVotes returns a text that changes with the policies and the votes that a page shows.
func (s *subject) hashVotes() string {
	if !s.hasPolicies() {
		return ""
	}
	sum := crc32.NewIEEE()
	for i := range s.approval.Policies {
		_, _ = fmt.Fprint(sum, s.approval.Policies[i].Name, s.approval.Policies[i].Revision)
	}
	for i := range s.tally.Votes {
		_, _ = fmt.Fprint(sum, s.tally.Votes[i].Number, s.approval.Counts(&s.tally.Votes[i]))
	}
	_, _ = fmt.Fprint(sum, s.tally.Voters, s.tally.Lost, s.approval.GlassReview != nil)
	return strconv.FormatUint(uint64(sum.Sum32()), 36)
}

// addVotes adds the policies of a call to its page, the votes, and what the reader may do about them.
func (s *subject) addVotes(v *Call, how shown) {
	v.Votes = s.presentVotes()
	if own := s.ownVote(); own != nil {
		v.Voted = true
		if have, needed := policy.CountApprovals(s.approval.Policies, s.tally.Voters); v.Notice == nil && own.Approves {
			v.Notice = &view.Notice{Level: view.Good, Title: text.VotesRecorded(), Text: text.VotesMoreNeeded(needed - have)}
		} else if v.Notice == nil {
			left := policy.CountRejections(s.approval.Policies) - s.tally.Rejections
			v.Notice = &view.Notice{Level: view.Good, Title: text.VotesRejectionRecorded(), Text: text.VotesMoreRejections(left)}
		}
	}
	if s.hasPolicies() && v.Actions.Kind != ActionNone && v.Actions.Kind != ActionOwnEdit && !s.edited && policy.AllowBreakGlass(s.approval.Policies) {
		v.BreakGlass = &BreakGlass{}
		if how.glass {
			v.BreakGlass.Reason, v.BreakGlass.Error = how.draft, how.err
			if how.confirm {
				v.Actions.Kind = ActionGlass
			}
		}
	}
	if a := s.approval; a != nil && a.BrokeGlass {
		_, may := s.mayDecide(s.access)
		v.Glass = &Glass{By: present.PersonName(a.DecidedBy, s.names), Reason: a.Note, Own: a.DecidedBy == s.access.Person.ID}
		if a.DecidedAt != nil {
			v.Glass.At = *a.DecidedAt
		}
		if r := a.GlassReview; r != nil {
			v.Glass.Review = &view.Decision{Word: text.VotesGlassReviewed(), By: present.PersonName(r.By, s.names), At: r.At, Note: r.Note}
		}
		v.Glass.MayReview = may && !v.Glass.Own && a.GlassReview == nil
		if how.glass {
			v.Glass.Draft, v.Glass.Error = how.draft, how.err
		}
	}
}

// BreakGlass is the form by which the reader approves alone.
type BreakGlass struct {
	Reason string
	Error  text.Message
}

// votesNotice explains why a vote did not count. It reports false for other errors.
func votesNotice(err error) (status int, n *view.Notice, ok bool) {
	n = &view.Notice{Level: view.Warn, Title: text.VotesNotRecorded()}
	switch {
	case errors.Is(err, approval.ErrVoted):
		n.Text = text.VotesVotedBefore()
		return http.StatusConflict, n, true
	case errors.Is(err, approval.ErrNotAsked):
		n.Text = text.VotesNotAsked()
		return http.StatusForbidden, n, true
	case errors.Is(err, approval.ErrPolicyChanged):
		n.Level, n.Text = view.Danger, text.VotesPolicyChanged()
		return http.StatusConflict, n, true
	case errors.Is(err, approval.ErrNoBreakGlass):
		n.Text = text.VotesNoBreakGlass()
		return http.StatusForbidden, n, true
	}
	return 0, nil, false
}

// BreakGlass approves a call alone, with a reason, in two steps. The table of forms that need a recent sign-in has it.
func (h *DecisionHandler) BreakGlass(w http.ResponseWriter, r *http.Request) {
	subject, ok := h.readDecidable(w, r)
	if !ok {
		return
	}
	reason, complaint := readReason(r, reasonField)
	if reason == "" && complaint.IsZero() {
		complaint = text.VotesGlassReasonMissing()
	}
	how := shown{draft: reason, err: complaint, glass: true}
	arguments := presentArguments(subject, formatOf(r), false)
	switch {
	case !subject.current:
		h.toolChanged(w, r, how)
	case !complaint.IsZero():
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case arguments.Withheld:
		how.err = text.ReviewRevealNeeded()
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case arguments.Folded:
		how.err = text.ReviewShowNeeded()
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case r.PostFormValue("confirmed") == "":
		how.confirm = r.PostFormValue("back") == ""
		h.callPages.answerWithCall(w, r, http.StatusOK, how)
	default:
		h.recordDecision(w, r, call.Decision{Approve: true, BreakGlass: true, Seen: readSeen(r)})
	}
}

// ReviewGlass records the review of an approval that another person gave alone.
func (h *DecisionHandler) ReviewGlass(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := readReason(r, "note")
	how := shown{draft: note, err: complaint, glass: true}
	if !complaint.IsZero() {
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
		return
	}
	refuse := func(status int, why text.Message) {
		how.notice = &view.Notice{Level: view.Warn, Title: text.VotesNoReview(), Text: why}
		h.callPages.answerWithCall(w, r, status, how)
	}
	switch _, err := h.calls.ReviewGlass(r.Context(), id, access.Person.ID, note); {
	case errors.Is(err, approval.ErrOwnGlass):
		refuse(http.StatusForbidden, text.VotesOwnGlass())
	case errors.Is(err, approval.ErrSelfApproval):
		refuse(http.StatusForbidden, text.ReviewOwnCall())
	case errors.Is(err, approval.ErrInvitedApproval):
		refuse(http.StatusForbidden, text.ReviewInvited())
	case errors.Is(err, approval.ErrGlassReviewed):
		refuse(http.StatusConflict, text.VotesGlassReviewedBefore())
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, formatOf(r).callURL(present.CallURL(id)))
	}
}

// listVoters returns the people whom the part about votes names.
func (s *subject) listVoters() []uuid.UUID {
	if s.tally == nil {
		return nil
	}
	var people []uuid.UUID
	for i := range s.tally.Votes {
		people = append(people, s.tally.Votes[i].By)
	}
	if r := s.approval.GlassReview; r != nil {
		people = append(people, r.By)
	}
	return people
}
